#include "kernels/rope.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::kernels::rope;
using caption::kernels::rope_table;
using namespace caption::testing;

namespace {

// theta^(-2 i / head_dim) in f32, as torch computes it.
Tensor inverse_frequencies(std::int64_t head_dim, double theta) {
  Tensor tensor(DType::kF32, {head_dim / 2});
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    tensor.as<float>()[i] = static_cast<float>(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return tensor;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/rope");

TEST_CASE("rotates the halves by position times frequency") {
  struct Case {
    std::int64_t heads, head_dim;
    std::vector<std::int32_t> positions;
  };
  const Case kCases[] = {
      {1, 2, {0}}, {3, 6, {5, 0, 5}}, {16, 128, {0, 1, 2, 1199, 8191}}, {8, 64, {10239, 7}}};
  for (const Case& c : kCases) {
    CAPTURE(c.head_dim);
    const auto tokens = static_cast<std::int64_t>(c.positions.size());
    const Tensor frequencies = inverse_frequencies(c.head_dim, 1e6);
    const Tensor x = random_f32({tokens, c.heads, c.head_dim}, 1);
    const std::vector<double> xs = values(x);
    const std::int64_t half = c.head_dim / 2;
    std::vector<double> want(xs.size());
    std::vector<double> tolerance(xs.size());
    for (std::size_t row = 0; row < xs.size() / static_cast<std::size_t>(c.head_dim); ++row) {
      const std::int32_t position = c.positions[row / static_cast<std::size_t>(c.heads)];
      for (std::int64_t i = 0; i < half; ++i) {
        // The angle is f32 by definition, so its rounding is part of the exact result.
        const double angle = static_cast<float>(position) * frequencies.as<float>()[i];
        const std::size_t low = row * static_cast<std::size_t>(c.head_dim) + i;
        const std::size_t high = low + static_cast<std::size_t>(half);
        want[low] = xs[low] * std::cos(angle) - xs[high] * std::sin(angle);
        want[high] = xs[high] * std::cos(angle) + xs[low] * std::sin(angle);
        // Cosine and sine are within an ulp (2 units); with a product and a sum, 4 units of each
        // term.
        tolerance[low] = tolerance[high] = 4 * kUnit * (std::abs(xs[low]) + std::abs(xs[high]));
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor table(DType::kF32, {tokens, c.head_dim});
      rope_table(stream, {.positions = indices(c.positions).view(), .inv_freq = frequencies.view()},
                 table.view());
      Tensor y = x.clone();
      rope(stream, table.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("each frequency follows the position along its axis") {
  constexpr std::int64_t kTokens = 5;
  const Tensor frequencies = inverse_frequencies(12, 1e4);
  const std::vector<std::int32_t> positions = {0, 1,  2,      2, 2, /**/ 0, 1, 3,
                                               4, 90, /**/ 0, 1, 5, 6,      7};
  const std::vector<std::int32_t> axis = {0, 1, 2, 1, 2, 0};
  for_each_stream([&](Stream& stream) {
    Tensor table(DType::kF32, {kTokens, 12});
    rope_table(stream,
               {.positions = indices(positions).view().reshape({3, kTokens}),
                .inv_freq = frequencies.view(),
                .axis = indices(axis).view()},
               table.view());
    int different = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      const auto first = positions.begin() + axis[static_cast<std::size_t>(i)] * kTokens;
      Tensor along_axis(DType::kF32, {kTokens, 12});
      rope_table(stream,
                 {.positions = indices(std::vector(first, first + kTokens)).view(),
                  .inv_freq = frequencies.view()},
                 along_axis.view());
      for (std::int64_t t = 0; t < kTokens; ++t) {
        const float* const have = table.as<float>() + t * 12 + i;
        const float* const want = along_axis.as<float>() + t * 12 + i;
        different += have[0] != want[0] || have[6] != want[6];
      }
    }
    CHECK(different == 0);
    CHECK_THROWS_AS(rope_table(stream,
                               {.positions = indices(positions).view().reshape({3, kTokens}),
                                .inv_freq = frequencies.view(),
                                .axis = indices({0, 1, 2, 3, 0, 0}).view()},
                               table.view()),
                    Error);
  });
}

TEST_CASE("no tokens, no work") {
  const Tensor frequencies = inverse_frequencies(8, 1e6);
  const Tensor positions(DType::kI32, {3, 0});
  const Tensor axis = indices({0, 1, 2, 0});
  Tensor table(DType::kF32, {0, 8});
  for_each_stream([&](Stream& stream) {
    rope_table(stream,
               {.positions = positions.view(), .inv_freq = frequencies.view(), .axis = axis.view()},
               table.view());
  });
}

TEST_CASE("the table's factor multiplies cosines and sines") {
  const Tensor frequencies = inverse_frequencies(10, 1e4);
  const Tensor positions = indices({0, 7, 300});
  for_each_stream([&](Stream& stream) {
    Tensor plain(DType::kF32, {3, 10});
    rope_table(stream, {.positions = positions.view(), .inv_freq = frequencies.view()},
               plain.view());
    Tensor scaled(DType::kF32, {3, 10});
    rope_table(
        stream,
        {.positions = positions.view(), .inv_freq = frequencies.view(), .axis = {}, .scale = 1.25F},
        scaled.view());
    int different = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      different += scaled.as<float>()[i] != plain.as<float>()[i] * 1.25F;
    }
    CHECK(different == 0);
    CHECK(plain.as<float>()[0] == 1.0F);
  });
}

TEST_CASE("position 0 changes nothing") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor frequencies = inverse_frequencies(64, 1e4);
  Tensor table(DType::kF32, {1, 64});
  rope_table(stream, {.positions = indices({0}).view(), .inv_freq = frequencies.view()},
             table.view());
  const Tensor x = random_f32({1, 4, 64}, 2);
  Tensor y = x.clone();
  rope(stream, table.view(), y.view());
  CHECK(same_bits(x, y));
}

TEST_CASE("a strided slice is rotated as a dense one, and alone") {
  const Tensor frequencies = inverse_frequencies(8, 1e4);
  for_each_stream([&](Stream& stream) {
    Tensor table(DType::kF32, {3, 8});
    rope_table(stream, {.positions = indices({4, 5, 6}).view(), .inv_freq = frequencies.view()},
               table.view());
    const Tensor all = random_f32({3, 48}, 3);
    Tensor strided = all.clone();
    rope(stream, table.view(), strided.view().columns(16, 16).reshape({3, 2, 8}));
    int different = 0;
    for (std::int64_t t = 0; t < 3; ++t) {
      Tensor dense(DType::kF32, {1, 2, 8});
      std::copy_n(all.as<float>() + t * 48 + 16, 16, dense.as<float>());
      rope(stream, table.view().rows(t, 1), dense.view());
      for (std::int64_t i = 0; i < 48; ++i) {
        const float want =
            i < 16 || i >= 32 ? all.as<float>()[t * 48 + i] : dense.as<float>()[i - 16];
        different += strided.as<float>()[t * 48 + i] != want;
      }
    }
    CHECK(different == 0);
  });
}

TEST_CASE("every tier has the same bits, whatever half a head is") {
  for (const std::int64_t head_dim : {2, 6, 16, 34, 128}) {
    CAPTURE(head_dim);
    const Tensor frequencies = inverse_frequencies(head_dim, 1e4);
    const Tensor x = random_f32({3, 2, head_dim}, 4);
    Tensor before;
    for_each_stream([&](Stream& stream) {
      Tensor table(DType::kF32, {3, head_dim});
      rope_table(stream, {.positions = indices({4, 5, 600}).view(), .inv_freq = frequencies.view()},
                 table.view());
      Tensor y = x.clone();
      rope(stream, table.view(), y.view());
      if (!before.empty()) CHECK(same_bits(y, before));
      before = std::move(y);
    });
  }
}

TEST_CASE("wrong shapes are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor frequencies = inverse_frequencies(8, 1e4);
  Tensor table(DType::kF32, {3, 6});
  CHECK_THROWS_WITH_AS(
      rope_table(stream, {.positions = indices({1, 2, 3}).view(), .inv_freq = frequencies.view()},
                 table.view()),
      "rope_table: table is f32 [3, 6] on cpu; wanted f32 [3, 8]", Error);
  Tensor x = random_f32({3, 2, 8}, 4);
  CHECK_THROWS_WITH_AS(rope(stream, table.view(), x.view()),
                       "rope: table is f32 [3, 6] on cpu; wanted f32 [3, 8]", Error);
  Tensor odd = random_f32({3, 2, 7}, 5);
  CHECK_THROWS_WITH_AS(rope(stream, table.view(), odd.view()),
                       "rope: head_dim is odd; wanted two halves", Error);
}

TEST_SUITE_END();
