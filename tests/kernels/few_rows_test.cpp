// Attention of a few rows straight from the pages: the bits of panels (attention_tier.h), on the
// tiers that have it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::Tensor;
using namespace caption::kernels::cpu;
using namespace caption::testing;

namespace {

constexpr std::int64_t kSlots = 512;

struct Case {
  std::int64_t dim, count, rows;
  bool scattered;  // slots in no order, or one behind the other from page to page
};

std::vector<std::int64_t> slots_of(const Case& c) {
  std::vector<std::int64_t> slots;
  for (std::int64_t j = 0; j < c.count; ++j) {
    slots.push_back(c.scattered ? (j * 37 + 5) % kSlots : (j / 16 * 48 + j % 16) % kSlots);
  }
  return slots;
}

// Rows of the elements of a page, two heads side by side, of which the second is read.
Tensor pages_of(Element element, std::int64_t dim) {
  const Tensor wide = random_f32({kSlots, 2 * dim}, 7);
  Tensor pages(element == Element::kI8 ? caption::DType::kI8 : caption::DType::kBF16, wide.shape());
  for (std::int64_t i = 0; i < kSlots * 2 * dim; ++i) {
    const float x = wide.as<float>()[i];
    if (element == Element::kI8) {
      pages.as<std::int8_t>()[i] = static_cast<std::int8_t>(std::clamp(x * 90, -127.0f, 127.0f));
    } else {
      pages.as<caption::BF16>()[i] = caption::from_float<caption::BF16>(x);
    }
  }
  return pages;
}

std::vector<std::uint16_t> random_rows(std::int64_t rows, std::int64_t depth, std::int64_t stride) {
  const Tensor x = random_f32({rows, depth}, 11);
  std::vector<std::uint16_t> y(static_cast<std::size_t>(rows * stride));
  for (std::int64_t m = 0; m < rows; ++m) {
    to_bf16_reference(x.as<float>() + m * depth, y.data() + m * stride, depth);
  }
  return y;
}

// c = a * panels^T, panels as the packer writes them.
std::vector<float> through_panels(const Tier& tier, void (*pack)(const PackArgs&), PackArgs pages,
                                  const std::vector<std::uint16_t>& a, std::int64_t stride,
                                  std::int64_t depth, std::int64_t columns, std::int64_t rows) {
  const std::int64_t num_panels = (columns + kPanelColumns - 1) / kPanelColumns;
  Tensor panels(caption::DType::kBF16, {num_panels, (depth + 1) / 2, 2 * kPanelColumns});
  pages.panels = panels.view().raw();
  pack(pages);
  std::vector<float> c(static_cast<std::size_t>(rows * num_panels * kPanelColumns));
  tier.panel_gemm({.a = a.data(),
                   .a_stride = stride,
                   .panels = reinterpret_cast<const std::uint16_t*>(panels.view().raw()),
                   .num_pairs = (depth + 1) / 2,
                   .num_panels = num_panels,
                   .c = c.data(),
                   .c_stride = num_panels * kPanelColumns,
                   .m = rows});
  return c;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b, std::int64_t rows,
               std::int64_t columns) {
  const std::size_t stride = a.size() / static_cast<std::size_t>(rows);
  for (std::size_t m = 0; m < static_cast<std::size_t>(rows); ++m) {
    if (std::memcmp(a.data() + m * stride, b.data() + m * stride,
                    static_cast<std::size_t>(columns) * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

void check_case(const Tier& tier, Element element, const Case& c) {
  CAPTURE(c.dim);
  CAPTURE(c.count);
  CAPTURE(c.rows);
  CAPTURE(c.scattered);
  const PagePacker& packer = tier.attention.pack[static_cast<int>(element)];
  const Tensor pages = pages_of(element, c.dim);
  const std::int64_t element_bytes = element == Element::kI8 ? 1 : 2;
  const std::vector<std::int64_t> slots = slots_of(c);
  const PackArgs args{.base = static_cast<const char*>(pages.view().raw()) + c.dim * element_bytes,
                      .row_bytes = 2 * c.dim * element_bytes,
                      .slots = slots.data(),
                      .count = c.count,
                      .dim = c.dim};
  constexpr std::int64_t kStride = 256;
  const auto queries = random_rows(c.rows, c.dim, kStride);
  const auto scores =
      through_panels(tier, packer.keys, args, queries, kStride, c.dim, c.count, c.rows);
  auto few = std::vector<float>(scores.size());
  const auto stride = static_cast<std::int64_t>(few.size()) / c.rows;
  packer.score({.pages = args,
                .a = queries.data(),
                .a_stride = kStride,
                .c = few.data(),
                .c_stride = stride,
                .m = c.rows});
  CHECK(same_bits(scores, few, c.rows, c.count));

  const auto weights = random_rows(c.rows, c.count, kStride);
  const auto sums =
      through_panels(tier, packer.values, args, weights, kStride, c.count, c.dim, c.rows);
  few.assign(sums.size(), -1.0f);
  packer.weigh({.pages = args,
                .a = weights.data(),
                .a_stride = kStride,
                .c = few.data(),
                .c_stride = static_cast<std::int64_t>(few.size()) / c.rows,
                .m = c.rows});
  CHECK(same_bits(sums, few, c.rows, c.dim));
}

}  // namespace

TEST_SUITE("kernels/few_rows") {
  TEST_CASE("a few rows straight from the pages have the bits of panels") {
    int num_checked = 0;
    for (const CpuTier which : TestedTiers()) {
      CAPTURE(static_cast<int>(which));
      const Tier& tier = select_tier(which);
      for (const Element element : {Element::kBF16, Element::kI8}) {
        const PagePacker& packer = tier.attention.pack[static_cast<int>(element)];
        REQUIRE((packer.score == nullptr) == (packer.weigh == nullptr));
        if (packer.score == nullptr) continue;
        for (const std::int64_t dim : {8, 31, 64, 72, 128, 250}) {
          for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 127, 128}) {
            const std::int64_t rows = 1 + (dim + count) % kMaxDirectRows;
            for (const bool scattered : {false, true}) {
              check_case(tier, element, {dim, count, rows, scattered});
              ++num_checked;
            }
          }
        }
      }
    }
    if (num_checked == 0) MESSAGE("SKIPPED: no tier of this CPU multiplies pages without panels");
  }
}
