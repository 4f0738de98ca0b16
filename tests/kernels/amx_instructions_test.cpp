// AMX instructions against plain loops: on the CPU if it has them, otherwise on the emulator, which
// this tests. Also checks where the tests of the AMX tier run.
#include "tests/support/amx_instructions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tensor/dtype.h"
#include "tests/support/tested_tiers.h"

using namespace caption::testing;

TEST_SUITE_BEGIN("kernels/amx_instructions");

TEST_CASE("the AMX tier is tested wherever AVX-512 with BF16, VBMI and VNNI is") {
  switch (where_amx_tier_runs()) {
    case AmxTierRuns::kOnTheCpu: MESSAGE("the AMX tier runs on this CPU's AMX"); break;
    case AmxTierRuns::kEmulated:
      MESSAGE("this CPU has no AMX (or the system grants none): its instructions are emulated");
      break;
    case AmxTierRuns::kNowhere:
      MESSAGE("SKIPPED the AMX tier: this machine lacks AVX-512 with BF16, VBMI and VNNI");
      break;
  }
  std::size_t count = 0;
  for ([[maybe_unused]] const caption::CpuTier tier : TestedTiers()) ++count;
  CHECK(count == caption::supported_cpu_tiers().size() +
                     (where_amx_tier_runs() == AmxTierRuns::kEmulated ? 1 : 0));
}

#if defined(__x86_64__)

namespace {

#define AMX_TARGET gnu::target("amx-tile,amx-bf16,amx-int8"), gnu::noinline

[[AMX_TARGET]] void configure(const AmxConfig& config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
[[AMX_TARGET]] void release() { __asm__ volatile("tilerelease" : :); }

// c += a * b, where c is [m, words], a is [m, depth], b is [depth, words] words of 4 bytes, dense.
enum class Product { kBF16, kSignedSigned, kSignedUnsigned, kUnsignedSigned, kUnsignedUnsigned };
constexpr Product kProducts[] = {Product::kBF16, Product::kSignedSigned, Product::kSignedUnsigned,
                                 Product::kUnsignedSigned, Product::kUnsignedUnsigned};

struct Operands {
  int m, depth, words;
  std::vector<std::uint32_t> a, b, c;
};

[[AMX_TARGET]] void multiply_on_tiles(Product product, Operands& x) {
  AmxConfig config;
  configure(config.set(7, x.m, 4 * x.words).set(3, x.m, 4 * x.depth).set(5, x.depth, 4 * x.words));
  const std::int64_t c_stride = 4 * x.words;
  const std::int64_t a_stride = 4 * x.depth;
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm7" : : "r"(x.c.data()), "r"(c_stride) : "memory");
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm3" : : "r"(x.a.data()), "r"(a_stride) : "memory");
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm5" : : "r"(x.b.data()), "r"(c_stride) : "memory");
  switch (product) {
    case Product::kBF16: __asm__ volatile("tdpbf16ps %%tmm5, %%tmm3, %%tmm7" : :); break;
    case Product::kSignedSigned: __asm__ volatile("tdpbssd %%tmm5, %%tmm3, %%tmm7" : :); break;
    case Product::kSignedUnsigned: __asm__ volatile("tdpbsud %%tmm5, %%tmm3, %%tmm7" : :); break;
    case Product::kUnsignedSigned: __asm__ volatile("tdpbusd %%tmm5, %%tmm3, %%tmm7" : :); break;
    case Product::kUnsignedUnsigned: __asm__ volatile("tdpbuud %%tmm5, %%tmm3, %%tmm7" : :); break;
  }
  __asm__ volatile("tilestored %%tmm7, (%0,%1,1)" : : "r"(x.c.data()), "r"(c_stride) : "memory");
  release();
}

float bf16(std::uint32_t pair, int half) {
  const std::uint32_t bits = half == 0 ? pair << 16 : pair & 0xFFFF0000U;
  return __builtin_bit_cast(float, bits);
}

std::int64_t byte(std::uint32_t word, int i, bool is_signed) {
  const auto bits = static_cast<std::uint8_t>(word >> (8 * i));
  return is_signed ? static_cast<std::int8_t>(bits) : bits;
}

// Returns one element of the result; operands must not be subnormal.
std::uint32_t expected(Product product, const Operands& x, int m, int n) {
  const auto word = [](const std::vector<std::uint32_t>& words, int at) {
    return words[static_cast<std::size_t>(at)];
  };
  const std::uint32_t before = word(x.c, m * x.words + n);
  const bool a_signed = product == Product::kSignedSigned || product == Product::kSignedUnsigned;
  const bool b_signed = product == Product::kSignedSigned || product == Product::kUnsignedSigned;
  float sums[2] = {};
  std::int64_t total = before;
  for (int k = 0; k < x.depth; ++k) {
    const std::uint32_t a = word(x.a, m * x.depth + k);
    const std::uint32_t b = word(x.b, k * x.words + n);
    for (int i = 0; i < 4; ++i) total += byte(a, i, a_signed) * byte(b, i, b_signed);
    for (int i = 0; i < 2; ++i) sums[i] = std::fma(bf16(a, i), bf16(b, i), sums[i]);
  }
  if (product != Product::kBF16) return static_cast<std::uint32_t>(total);
  return __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, before) + (sums[0] + sums[1]));
}

Operands random_operands(Product product, int m, int depth, int words) {
  std::mt19937 generator(static_cast<unsigned>(m + 100 * depth + 10'000 * words));
  const auto draw = [&](int count, auto&& one) {
    std::vector<std::uint32_t> drawn(static_cast<std::size_t>(count));
    for (std::uint32_t& word : drawn) word = one();
    return drawn;
  };
  const auto real = [&] { return static_cast<float>(generator() >> 8) * 0x1p-23F - 1.0F; };
  const auto pair = [&]() -> std::uint32_t {
    if (product != Product::kBF16) return static_cast<std::uint32_t>(generator());
    return caption::to_bf16(real()).bits | std::uint32_t{caption::to_bf16(real()).bits} << 16;
  };
  const auto sum = [&]() -> std::uint32_t {
    if (product != Product::kBF16) return static_cast<std::uint32_t>(generator());
    return __builtin_bit_cast(std::uint32_t, real());
  };
  return {m, depth, words, draw(m * depth, pair), draw(depth * words, pair), draw(m * words, sum)};
}

bool has_no_amx() {
  if (where_amx_tier_runs() != AmxTierRuns::kNowhere) return false;
  MESSAGE("SKIPPED: neither AMX nor what its emulation needs");
  return true;
}

}  // namespace

TEST_CASE("every product agrees with the plain loops bit for bit, at any shape") {
  if (has_no_amx()) return;
  const TestedTiers tiers;
  for (const Product product : kProducts) {
    for (const int m : {1, 3, 15, 16}) {
      for (const int depth : {1, 5, 16}) {
        for (const int words : {1, 7, 16}) {
          CAPTURE(static_cast<int>(product));
          CAPTURE(m);
          CAPTURE(depth);
          CAPTURE(words);
          Operands x = random_operands(product, m, depth, words);
          std::vector<std::uint32_t> want;
          for (int i = 0; i < m; ++i) {
            for (int j = 0; j < words; ++j) want.push_back(expected(product, x, i, j));
          }
          multiply_on_tiles(product, x);
          CHECK(x.c == want);
        }
      }
    }
  }
}

TEST_CASE("products of bf16 take denormals for zeros and make none") {
  if (has_no_amx()) return;
  const TestedTiers tiers;
  const auto product = [](float a, float b, float c) {
    const auto high = [](float x) { return __builtin_bit_cast(std::uint32_t, x) & 0xFFFF0000U; };
    Operands x{1, 1, 1, {high(a)}, {high(b)}, {__builtin_bit_cast(std::uint32_t, c)}};
    multiply_on_tiles(Product::kBF16, x);
    return __builtin_bit_cast(float, x.c[0]);
  };
  CHECK(product(0x1p-130F, 0x1p100F, 0) == 0);
  CHECK(product(0x1p100F, 0x1p-130F, 0) == 0);
  CHECK(product(0x1p-70F, 0x1p-70F, 0) == 0);
  CHECK(product(0, 0, 0x1p-130F) == 0);
  CHECK(product(0x1p-63F, 0x1p-63F, 0) == 0x1p-126F);
  CHECK(std::isinf(product(0x1p127F, 2, 0)));
  CHECK(std::isnan(product(INFINITY, 0, 0)));
}

// Loads two rows of 4 bytes, 4 bytes apart, and stores them densely.
#define CHECK_ADDRESS(base, index, scale, displacement)                                          \
  do {                                                                                           \
    std::uint32_t got[2] = {};                                                                   \
    const std::int64_t dense = 4;                                                                \
    const std::int64_t stride = 8 / (scale);                                                     \
    const auto from = reinterpret_cast<std::uint64_t>(words + 1) -                               \
                      static_cast<std::uint64_t>(std::int64_t{displacement});                    \
    __asm__ volatile("mov %0, %%" base "\n\tmov %1, %%" index "\n\ttileloadd " #displacement     \
                     "(%%" base ",%%" index "," #scale "), %%tmm6\n\ttilestored %%tmm6, (%2,%3)" \
                     :                                                                           \
                     : "r"(from), "r"(stride), "r"(got), "r"(dense)                              \
                     : base, index, "memory");                                                   \
    CHECK(got[0] == words[1]);                                                                   \
    CHECK(got[1] == words[3]);                                                                   \
  } while (false)

[[AMX_TARGET]] static void check_addresses() {
  configure(AmxConfig().set(6, 2, 4));
  alignas(64) const std::uint32_t words[] = {10, 11, 12, 13};
  CHECK_ADDRESS("rax", "rcx", 1, 0);
  CHECK_ADDRESS("rdx", "rsi", 2, 100);
  CHECK_ADDRESS("rdi", "r8", 4, -100);
  CHECK_ADDRESS("r9", "r10", 8, 1000);
  CHECK_ADDRESS("r12", "r11", 1, -1000);
  CHECK_ADDRESS("r13", "r12", 1, 0);  // the lower bits of r13 and r12 are those of rbp and rsp
  CHECK_ADDRESS("r14", "r13", 2, 5);
  CHECK_ADDRESS("r15", "r14", 4, 0);
  std::uint32_t got[2] = {};
  const std::int64_t dense = 4;
  // Without an index register the row stride is 0, so all rows are the same.
  __asm__ volatile("tileloadd (%0), %%tmm6\n\ttilestored %%tmm6, (%1,%2)"
                   :
                   : "r"(words + 1), "r"(got), "r"(dense)
                   : "memory");
  CHECK(got[0] == 11);
  CHECK(got[1] == 11);
  __asm__ volatile("tilezero %%tmm6\n\ttilestored %%tmm6, (%0,%1)"
                   :
                   : "r"(got), "r"(dense)
                   : "memory");
  CHECK(got[0] == 0);
  CHECK(got[1] == 0);
  release();
}

TEST_CASE("tiles are loaded by way of any registers, scales and displacements") {
  if (has_no_amx()) return;
  const TestedTiers tiers;
  check_addresses();
}

[[AMX_TARGET]] static void load_and_store(const std::uint32_t& from, std::uint32_t& to) {
  configure(AmxConfig().set(1, 1, 4).set(2, 16, 64));
  __asm__ volatile("tileloadd (%0,%0), %%tmm1" : : "r"(&from) : "memory");
  __asm__ volatile("tilestored %%tmm1, (%0,%0)" : : "r"(&to) : "memory");
  release();
}

[[AMX_TARGET]] static void load_around(const std::uint32_t& from, std::uint32_t& to,
                                       const std::function<void()>& between) {
  configure(AmxConfig().set(1, 1, 4));
  __asm__ volatile("tileloadd (%0,%0), %%tmm1" : : "r"(&from) : "memory");
  between();
  __asm__ volatile("tilestored %%tmm1, (%0,%0)" : : "r"(&to) : "memory");
  release();
}

TEST_CASE("each thread has tiles of its own") {
  if (has_no_amx()) return;
  const TestedTiers tiers;
  const std::uint32_t from[] = {1, 2};
  std::uint32_t to[2] = {};
  load_around(from[0], to[0], [&] { std::thread([&] { load_and_store(from[1], to[1]); }).join(); });
  CHECK(to[0] == from[0]);
  CHECK(to[1] == from[1]);
}

#endif

TEST_SUITE_END();
