#include "weights/ggml_encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "tensor/dtype.h"

namespace caption::weights {
namespace {

constexpr std::size_t kBlock = 32;
constexpr float kMaxF16 = 65504.0F;

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

void require_finite(std::span<const float> values) {
  const bool is_finite =
      std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  if (!is_finite)
    throw Error(ErrorCode::kBadModel, "a weight is not a finite number; download the file again");
}

// Numbers that round to infinity have no f16.
F16 checked_f16(float value, const char* what) {
  const F16 rounded = to_f16(value);
  if ((rounded.bits & 0x7FFFu) != 0x7C00u) return rounded;
  throw Error(ErrorCode::kBadModel, std::string(what) + " " + json_number(value) + " exceeds " +
                                        json_number(kMaxF16) +
                                        ", the largest number of f16; choose another format");
}

void encode_f16(std::span<const float> values, std::byte* to) {
  for (const float value : values) {
    store(to, checked_f16(value, "the weight").bits);
    to += sizeof(std::uint16_t);
  }
}

void encode_bf16(std::span<const float> values, std::byte* to) {
  for (const float value : values) {
    store(to, to_bf16(value).bits);
    to += sizeof(std::uint16_t);
  }
}

// 1 / d as the reference has it, which multiplies by it.
float inverse_of(float d) { return d == 0 ? 0 : 1 / d; }

// Rounds halves away from zero, exactly, for |x| < 2^23; faster than std::round().
int rounded(float x) {
  const int whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0);
}

// f16 d | 32 codes of 8 bits.
void encode_q8_0(const float* values, std::byte* to) {
  float largest = 0;
  for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float d = largest / 127;
  const float inverse = inverse_of(d);
  store(to, checked_f16(d, "a scale of Q8_0,").bits);
  to += sizeof(std::uint16_t);
  for (std::size_t i = 0; i < kBlock; ++i) {
    store(to + i, static_cast<std::int8_t>(rounded(values[i] * inverse)));
  }
}

// f16 d | 16 bytes, of which byte i has the codes i (low half) and i + 16. The product and the sum
// are rounded each: everything is compiled with -ffp-contract=off.
void encode_q4_0(const float* values, std::byte* to) {
  float largest = values[0];
  for (std::size_t i = 1; i < kBlock; ++i) {
    if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
  }
  const float d = largest / -8;
  const float inverse = inverse_of(d);
  const auto code = [inverse](float value) {
    const float scaled = value * inverse;
    return static_cast<std::uint8_t>(std::min(static_cast<int>(scaled + 8.5F), 15));
  };
  store(to, checked_f16(d, "a scale of Q4_0,").bits);
  to += sizeof(std::uint16_t);
  constexpr std::size_t kHalf = kBlock / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const int pair = code(values[i]) | code(values[i + kHalf]) << 4;
    store(to + i, static_cast<std::uint8_t>(pair));
  }
}

}  // namespace

bool is_encoded(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBF16:
    case GgmlType::kQ8_0:
    case GgmlType::kQ4_0: return true;
    default: return false;
  }
}

std::size_t encoded_bytes(GgmlType type, std::int64_t num_values) {
  const GgmlTypeTraits* const traits = find_ggml_type(static_cast<std::uint32_t>(type));
  CAPTION_CHECK(traits != nullptr && num_values % traits->block_elements == 0,
                "encoded_bytes: no whole number of blocks");
  return static_cast<std::size_t>(num_values / traits->block_elements * traits->block_bytes);
}

void encode_rows(GgmlType type, std::span<const float> values, std::span<std::byte> bytes) {
  CAPTION_CHECK(is_encoded(type), "encode_rows: this type is not written");
  CAPTION_CHECK(bytes.size() == encoded_bytes(type, std::ssize(values)),
                "encode_rows: bytes of another size");
  require_finite(values);
  std::byte* to = bytes.data();
  switch (type) {
    case GgmlType::kF32:
      if (!values.empty()) std::memcpy(to, values.data(), bytes.size());
      return;
    case GgmlType::kF16: return encode_f16(values, to);
    case GgmlType::kBF16: return encode_bf16(values, to);
    default: break;
  }
  const std::size_t block_bytes = encoded_bytes(type, kBlock);
  for (std::size_t at = 0; at < values.size(); at += kBlock, to += block_bytes) {
    const float* const block = values.data() + at;
    type == GgmlType::kQ8_0 ? encode_q8_0(block, to) : encode_q4_0(block, to);
  }
}

}  // namespace caption::weights
