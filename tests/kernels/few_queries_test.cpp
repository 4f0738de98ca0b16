// The products of few queries without panels, on every tier that has them: the bits of the products
// with panels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Tensor;
using namespace caption::kernels::cpu;
using namespace caption::testing;

namespace {

struct Case {
  DType dtype;
  std::int64_t m, num_heads, count, dim;
};

constexpr std::int64_t kRows = 300;
constexpr float kUntouched = 7777;

std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

Tensor draw_pages(DType dtype, const caption::Shape& shape) {
  if (dtype != DType::kI8) return random_of(dtype, shape, 5);
  Tensor pages(dtype, shape);
  std::mt19937 generator(5);
  for (std::int64_t i = 0; i < pages.num_elements(); ++i) {
    pages.as<std::int8_t>()[i] =
        static_cast<std::int8_t>(static_cast<int>(generator() % 255) - 127);
  }
  return pages;
}

// Rows of pages, in a drawn order, and queries.
struct Operands {
  Case of;
  Tensor pages;  // [kRows, num_heads, dim]
  std::vector<std::int64_t> slots;

  explicit Operands(const Case& c)
      : of(c), pages(draw_pages(c.dtype, {kRows, c.num_heads, c.dim})) {
    for (std::int64_t j = 0; j < c.count; ++j) slots.push_back(j * 7 % kRows);
  }

  std::int64_t head_bytes() const {
    return of.dim * static_cast<std::int64_t>(dtype_size_bytes(of.dtype));
  }
  std::int64_t row_bytes() const { return of.num_heads * head_bytes(); }
  const std::byte* base() const { return static_cast<const std::byte*>(pages.view().raw()); }
};

// [rows, stride] of f32 or of bf16: `depth` numbers, for bf16 a zero if that is odd, then NaNs that
// nobody reads.
struct DrawnQueries {
  std::vector<float> floats;
  std::vector<std::uint16_t> rounded;

  DrawnQueries(const Tier& tier, std::int64_t rows, std::int64_t depth, std::int64_t stride)
      : floats(static_cast<std::size_t>(rows * stride), std::numeric_limits<float>::quiet_NaN()),
        rounded(static_cast<std::size_t>(rows * stride), 0x7FC0) {
    const Tensor numbers = random_f32({rows, depth}, 11);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(numbers.as<float>() + r * depth, depth, floats.data() + r * stride);
      std::uint16_t* const to = rounded.data() + r * stride;
      tier.to_bf16(numbers.as<float>() + r * depth, to, depth);
      if (depth % 2 != 0) to[depth] = 0;
    }
  }
};

enum class Product { kScore, kWeigh };

// c[m, padded columns] of a head whose queries begin with row `row`, with panels.
void multiply_panels(const Tier& tier, const void* panels, const DrawnQueries& a, std::int64_t row,
                     std::int64_t a_stride, const Case& of, Product product,
                     std::vector<float>& c) {
  const std::int64_t depth = product == Product::kScore ? of.dim : of.count;
  const std::int64_t columns = product == Product::kScore ? of.count : of.dim;
  const std::int64_t num_panels = (columns + kPanelColumns - 1) / kPanelColumns;
  if (tier.attention.pack[static_cast<int>(element_of(of.dtype))].to_pairs) {
    tier.panel_gemm({.a = a.rounded.data() + row * a_stride,
                     .a_stride = a_stride,
                     .panels = static_cast<const std::uint16_t*>(panels),
                     .num_pairs = (depth + 1) / 2,
                     .num_panels = num_panels,
                     .c = c.data(),
                     .c_stride = num_panels * kPanelColumns,
                     .m = of.m});
    return;
  }
  tier.attention.float_panel_gemm({.a = a.floats.data() + row * a_stride,
                                   .a_stride = a_stride,
                                   .panels = static_cast<const float*>(panels),
                                   .depth = depth,
                                   .num_panels = num_panels,
                                   .c = c.data(),
                                   .c_stride = num_panels * kPanelColumns,
                                   .m = of.m});
}

void check_product(const Tier& tier, const Operands& x, Product product) {
  const Case& of = x.of;
  const auto element = static_cast<std::size_t>(element_of(of.dtype));
  const bool scores = product == Product::kScore;
  const std::int64_t depth = scores ? of.dim : of.count;
  const std::int64_t columns = scores ? of.count : of.dim;
  const std::int64_t a_stride = padded(depth, 2) + 6;
  const PagePacker& packer = tier.attention.pack[element];
  const DrawnQueries a(tier, of.num_heads * of.m, depth, a_stride);
  const std::int64_t c_stride = padded(columns, 16) + 16;
  std::vector<float> c(static_cast<std::size_t>(of.num_heads * of.m * c_stride), kUntouched);
  const FewQueries& few = tier.attention.few_queries[element];
  const FewQueriesArgs args{
      .base = x.base(),
      .row_bytes = x.row_bytes(),
      .slots = x.slots.data(),
      .count = of.count,
      .num_heads = of.num_heads,
      .dim = of.dim,
      .a = packer.to_pairs ? static_cast<const void*>(a.rounded.data()) : a.floats.data(),
      .a_stride = a_stride,
      .c = c.data(),
      .c_stride = c_stride,
      .m = of.m,
      .next_base = x.base(),
      .next_slots = x.slots.data(),
      .next_count = std::min<std::int64_t>(of.count, 5)};
  (scores ? few.score : few.weigh)(args);

  const std::int64_t want_stride = padded(columns, kPanelColumns);
  std::vector<float> panels(static_cast<std::size_t>(padded(depth, 2) * want_stride));
  std::vector<float> want(static_cast<std::size_t>(of.m * want_stride));
  for (std::int64_t head = 0; head < of.num_heads; ++head) {
    (scores ? packer.keys : packer.values)({.base = x.base() + head * x.head_bytes(),
                                            .row_bytes = x.row_bytes(),
                                            .slots = x.slots.data(),
                                            .count = of.count,
                                            .dim = of.dim,
                                            .panels = panels.data()});
    multiply_panels(tier, panels.data(), a, head * of.m, a_stride, of, product, want);
    for (std::int64_t m = 0; m < of.m; ++m) {
      const float* const row = c.data() + (head * of.m + m) * c_stride;
      CAPTURE(head);
      CAPTURE(m);
      CHECK(std::memcmp(row, want.data() + m * want_stride,
                        static_cast<std::size_t>(columns) * sizeof(float)) == 0);
      CHECK(std::all_of(row + padded(columns, 16), row + c_stride,
                        [](float y) { return y == kUntouched; }));
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("kernels/few_queries");

TEST_CASE("products without panels have the bits of those with panels") {
  int num_checked = 0;
  for (const caption::CpuTier name : TestedTiers()) {
    const Tier& tier = select_tier(name);
    CAPTURE(cpu_tier_name(name));
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
      const auto element = static_cast<std::size_t>(element_of(dtype));
      if (tier.attention.few_queries[element].score == nullptr) continue;
      for (std::int64_t m = 1; m <= kFewQueries; ++m) {
        for (const std::int64_t dim : {1, 31, 40, 64, 72, 80, 96, 128, 160, 256}) {
          for (const std::int64_t count : {1, 15, 16, 17, 47, 100, 127, 128}) {
            const Case of{dtype, m, 1 + (m + dim + count) % 5, count, dim};
            CAPTURE(dtype_name(dtype));
            CAPTURE(m);
            CAPTURE(of.num_heads);
            CAPTURE(dim);
            CAPTURE(count);
            const Operands x(of);
            check_product(tier, x, Product::kScore);
            check_product(tier, x, Product::kWeigh);
            ++num_checked;
          }
        }
      }
    }
  }
  if (num_checked == 0)
    MESSAGE("not checked: no tier of this machine has them (those from AVX2 on have)");
}

TEST_SUITE_END();
