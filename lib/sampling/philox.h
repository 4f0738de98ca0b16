// sampling/philox.h: Philox4x32-10, a counter-based generator of random bits.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11.
//
// The bits are a pure function of (key, counter): a draw depends on the request's seed and the
// index of the token alone, never on batch, order or thread.
#pragma once

#include <array>
#include <cstdint>

namespace caption::sampling {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

// Uniform in [0, 1) with 53 bits; one draw per request and output index.
double uniform_draw(std::uint64_t seed, std::uint64_t output_idx);

}  // namespace caption::sampling
