// Integer panels with AVX-VNNI: an instruction multiplies 32 bytes and adds to 8 sums of 32 bits,
// which takes three instructions of AVX2 for 16 bytes.
#include "kernels/cpu/avxvnni/integer_panels.h"

#include <immintrin.h>

#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/internal/simd_nibble_panels.h"
#include "kernels/cpu/internal/simd_quad_panels.h"

namespace caption::kernels::cpu {
namespace {

// A tile uses 6 x 2 registers of sums, 2 of weights and 1 of activations.
struct AvxVnni : Avx2 {
  static constexpr int kQuadRows = 6;
  static constexpr int kNibbleRows = 6;
  static constexpr std::int64_t kSafeQuads = kMaxGroupQuads;

  // Returns z + the sums of four products each of unsigned by signed bytes.
  static Integers multiply_add_bytes(Integers x, Integers y, Integers z) {
    return _mm256_dpbusd_avx_epi32(z, x, y);
  }
  static Integers multiply_bytes(Integers x, Integers y) {
    return multiply_add_bytes(x, y, zero_integers());
  }
  static Integers load_steps(const std::uint8_t* x) { return widen_u8(x); }
  static Integers multiply_add_steps(Integers sums, Integers steps, Integers z) {
    return _mm256_add_epi32(z, _mm256_mullo_epi32(sums, steps));
  }
};

}  // namespace

void panel8a8_avxvnni(const IntegerArgs& args) { panel8a8_by_quads<AvxVnni>(args); }

void panel4a8_avxvnni(const Integer4Args& args) { panel4a8<AvxVnni>(args); }

}  // namespace caption::kernels::cpu
