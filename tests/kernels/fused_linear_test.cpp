// Several products in one call, and products with an activation, have the bits of separate
// products, on every tier, in every layout, at odd sizes.
#include <vector>

#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/linear.h"
#include "kernels/swiglu.h"
#include "tests/kernels/testing.h"
#include "weights/quantise.h"

using caption::ConstView;
using caption::DType;
using caption::Error;
using caption::MatrixFormat;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::kernels::linear;
using caption::kernels::linear_add_scaled;
using caption::kernels::linear_swiglu;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cpu::PackedWeight;
using caption::kernels::cpu::to_weight;
using namespace caption::testing;

namespace {

enum class Kind { kRows, kPanels, kInt8, kInt4, kNf4, k8A8, k4A8 };
constexpr Kind kKinds[] = {Kind::kRows, Kind::kPanels, Kind::kInt8, Kind::kInt4,
                           Kind::kNf4,  Kind::k8A8,    Kind::k4A8};

// Kinds without packing borrow the tensor.
Weight pack(Kind kind, const Tensor& weight) {
  ThreadPool pool(1);
  Stream stream(pool);
  const auto quantised = [&](MatrixFormat format) {
    const auto rows = [&weight, format](std::int64_t first, std::int64_t count) {
      return caption::weights::quantise(weight.view().rows(first, count), format);
    };
    return caption::kernels::place_quantised(stream, format, weight.dim(0), rows);
  };
  switch (kind) {
    case Kind::kRows: return weight.view();
    case Kind::kPanels:
      return to_weight(PackedWeight::pack_panels(stream, weight.view()), caption::Device::kCpu);
    case Kind::kInt8: return quantised(MatrixFormat::kInt8);
    case Kind::kInt4: return quantised(MatrixFormat::kInt4);
    case Kind::kNf4: return quantised(MatrixFormat::kNf4);
    case Kind::k8A8: return quantised(MatrixFormat::kInt8Row);
    case Kind::k4A8: return quantised(MatrixFormat::kInt4A8);
  }
  return {};
}

struct Case {
  std::int64_t m, n, k;
};
// Sizes: 1; odd; one past a panel of 32 and a block of 64 features; two blocks of 96 rows and a
// rest.
constexpr Case kCases[] = {{1, 1, 1},    {1, 130, 257}, {2, 64, 128},  {3, 33, 65},
                           {5, 200, 31}, {17, 96, 130}, {100, 70, 63}, {195, 65, 33}};

// Calls work(kind, case) for all combinations.
template <class Work>
void for_each_case(Work work) {
  for (const Kind kind : kKinds) {
    for (const Case& c : kCases) {
      INFO("kind ", static_cast<int>(kind), ", ", c.m, " x ", c.n, " x ", c.k);
      work(kind, c);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("kernels/fused_linear");

TEST_CASE("several layers of one input have the bits of one after another") {
  for_each_case([](Kind kind, const Case& c) {
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor bias = random_of(DType::kBF16, {c.n}, 2);
    // As for q, k and v of a decoder: different sizes, one with a bias.
    const std::int64_t sizes[] = {c.n, (c.n + 1) / 2, c.n + 7};
    std::vector<Tensor> rows;
    std::vector<Weight> weights;
    std::vector<Tensor> apart;
    std::vector<Tensor> together;
    rows.reserve(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      rows.push_back(random_of(DType::kBF16, {sizes[i], c.k}, 3 + i));
      weights.push_back(pack(kind, rows.back()));
      apart.emplace_back(DType::kF32, caption::Shape{c.m, sizes[i]});
      together.emplace_back(DType::kF32, caption::Shape{c.m, sizes[i]});
    }
    for_each_stream([&](Stream& stream) {
      for (std::size_t i = 0; i < 3; ++i) {
        linear(stream, x.view(), weights[i], i == 0 ? bias.view() : ConstView{}, apart[i].view());
      }
      const LinearPart parts[] = {{weights[0], bias.view(), together[0].view()},
                                  {weights[1], ConstView{}, together[1].view()},
                                  {weights[2], ConstView{}, together[2].view()}};
      linear(stream, x.view(), parts);
      for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(apart[i], together[i]));
    });
  });
}

TEST_CASE("swiglu has the bits of two layers and their activation") {
  for_each_case([](Kind kind, const Case& c) {
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor gate_rows = random_of(DType::kBF16, {c.n, c.k}, 2);
    const Tensor up_rows = random_of(DType::kBF16, {c.n, c.k}, 3);
    const Tensor gate_bias = random_of(DType::kF16, {c.n}, 4);
    const Tensor up_bias = random_f32({c.n}, 5);
    const Weight gate = pack(kind, gate_rows);
    const Weight up = pack(kind, up_rows);
    for_each_stream([&](Stream& stream) {
      for (const bool has_bias : {false, true}) {
        const ConstView of_gate = has_bias ? gate_bias.view() : ConstView{};
        const ConstView of_up = has_bias ? up_bias.view() : ConstView{};
        Tensor g(DType::kF32, {c.m, c.n});
        Tensor u(DType::kF32, {c.m, c.n});
        linear(stream, x.view(), gate, of_gate, g.view());
        linear(stream, x.view(), up, of_up, u.view());
        const auto& tier = caption::kernels::cpu::select_tier(stream.cpu_tier());
        tier.swish({.x = g.as<float>(),
                    .beta = 1,
                    .factor = u.as<float>(),
                    .y = g.as<float>(),
                    .n = g.num_elements()});
        // A strided output between columns that must not change.
        Tensor wide = Tensor::zeros(DType::kF32, {c.m, c.n + 2});
        const View y = wide.view().columns(1, c.n);
        linear_swiglu(stream, x.view(), {gate, of_gate}, {up, of_up}, y);
        bool is_same = true;
        for (std::int64_t m = 0; m < c.m; ++m) {
          const float* const row = wide.as<float>() + m * (c.n + 2);
          is_same &= row[0] == 0 && row[c.n + 1] == 0;
          is_same &= std::memcmp(row + 1, g.as<float>() + m * c.n,
                                 static_cast<std::size_t>(c.n) * sizeof(float)) == 0;
        }
        CHECK(is_same);
        // In place, as between the layers of a decoder with adapters.
        linear(stream, x.view(), gate, of_gate, g.view());
        caption::kernels::swiglu(stream, g.view(), u.view(), g.view());
        Tensor dense(DType::kF32, {c.m, c.n});
        linear_swiglu(stream, x.view(), {gate, of_gate}, {up, of_up}, dense.view());
        CHECK(same_bits(dense, g));
      }
    });
  });
}

TEST_CASE("a scaled sum has the bits of a layer, a product and a sum") {
  for_each_case([](Kind kind, const Case& c) {
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor rows = random_of(DType::kBF16, {c.n, c.k}, 2);
    const Tensor bias = random_of(DType::kF16, {c.n}, 4);
    const Weight weight = pack(kind, rows);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Tensor scale = random_of(dtype, {c.n}, 5);
      const std::vector<double> scales = values(scale);
      for_each_stream([&](Stream& stream) {
        for (const bool has_bias : {false, true}) {
          const ConstView b = has_bias ? bias.view() : ConstView{};
          Tensor plain(DType::kF32, {c.m, c.n});
          linear(stream, x.view(), weight, b, plain.view());
          Tensor y = random_f32({c.m, c.n}, 6);
          const Tensor before = y.clone();
          linear_add_scaled(stream, x.view(), {weight, b}, scale.view(), y.view());
          std::int64_t different = 0;
          for (std::int64_t i = 0; i < plain.num_elements(); ++i) {
            const auto factor = static_cast<float>(scales[static_cast<std::size_t>(i % c.n)]);
            const float product = factor * plain.as<float>()[i];
            different += y.as<float>()[i] != before.as<float>()[i] + product;
          }
          CHECK(different == 0);
        }
      });
    }
  });
}

TEST_CASE("operands of swiglu that do not fit each other are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  Tensor y(DType::kF32, {2, 4});
  const Tensor shorter(DType::kF32, {2, 3});
  const Tensor bf16(DType::kBF16, {2, 4});
  CHECK_THROWS_WITH_AS(caption::kernels::swiglu(stream, y.view(), shorter.view(), y.view()),
                       doctest::Contains("swiglu: up is"), Error);
  CHECK_THROWS_WITH_AS(caption::kernels::swiglu(stream, bf16.view(), y.view(), y.view()),
                       doctest::Contains("swiglu: gate is"), Error);
}

TEST_CASE("swiglu agrees with double precision") {
  const Tensor x = random_f32({3, 40}, 1);
  const Tensor gate = random_f32({50, 40}, 2);
  const Tensor up = random_f32({50, 40}, 3);
  for_each_stream([&](Stream& stream) {
    Tensor y(DType::kF32, {3, 50});
    linear_swiglu(stream, x.view(), {gate.view()}, {up.view()}, y.view());
    for (std::int64_t m = 0; m < 3; ++m) {
      for (std::int64_t n = 0; n < 50; ++n) {
        double g = 0;
        double u = 0;
        for (std::int64_t k = 0; k < 40; ++k) {
          const double of_x = static_cast<double>(x.as<float>()[m * 40 + k]);
          g += of_x * static_cast<double>(gate.as<float>()[n * 40 + k]);
          u += of_x * static_cast<double>(up.as<float>()[n * 40 + k]);
        }
        // Sums of 40 terms below 1, 5 per lane; |g|, |u| < 40, and a few roundings of the product.
        const double want = g / (1 + std::exp(-g)) * u;
        const double tolerance = kUnit * 13 * 40 * (std::abs(g) + std::abs(u) + 1);
        CHECK(std::abs(static_cast<double>(y.as<float>()[m * 50 + n]) - want) <= tolerance);
      }
    }
  });
}

TEST_CASE("no layers or no rows, no work") {
  const Tensor x(DType::kF32, {0, 8});
  const Tensor weight = random_f32({4, 8}, 11);
  Tensor y(DType::kF32, {0, 4});
  for_each_stream([&](Stream& stream) {
    linear(stream, x.view(), {});
    linear_swiglu(stream, x.view(), {weight.view()}, {weight.view()}, y.view());
  });
}

TEST_CASE("layers of several forms have the bits of separate products") {
  constexpr std::int64_t kRows = 5, kFeatures = 40, kColumns = 256;
  const Tensor x = random_f32({kRows, kColumns}, 21);
  const Tensor weight = random_of(DType::kBF16, {kFeatures, kColumns}, 22);
  for_each_stream([&](Stream& stream) {
    std::vector<Weight> weights;
    std::vector<Tensor> together, alone;
    for (const Kind kind : {Kind::kInt4, Kind::kRows, Kind::kNf4, Kind::kInt4}) {
      weights.push_back(pack(kind, weight));
      together.emplace_back(DType::kF32, caption::Shape{kRows, kFeatures});
      alone.emplace_back(DType::kF32, caption::Shape{kRows, kFeatures});
    }
    std::vector<LinearPart> parts;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      parts.push_back({weights[i], {}, together[i].view()});
      linear(stream, x.view(), weights[i], {}, alone[i].view());
    }
    linear(stream, x.view(), parts);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(together[i], alone[i]));
    }
  });
}

TEST_CASE("layers that do not fit each other are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({2, 64}, 1);
  const Tensor rows = random_of(DType::kBF16, {4, 64}, 2);
  const Tensor shorter = random_of(DType::kBF16, {3, 64}, 2);
  Tensor y(DType::kF32, {2, 4});
  const Weight panels = pack(Kind::kPanels, rows);
  const Weight borrowed = pack(Kind::kRows, rows);
  const Weight narrow = pack(Kind::kRows, shorter);
  CHECK_THROWS_WITH_AS(linear_swiglu(stream, x.view(), {panels}, {borrowed}, y.view()),
                       "linear_swiglu: one weight is panels of bf16, another rows", Error);
  const Weight by_128 = pack(Kind::kInt4, random_of(DType::kBF16, {4, 256}, 3));
  const Weight by_64 = pack(Kind::kNf4, random_of(DType::kBF16, {4, 256}, 4));
  const Tensor wide = random_f32({2, 256}, 5);
  CHECK_THROWS_WITH_AS(linear_swiglu(stream, wide.view(), {by_128}, {by_64}, y.view()),
                       "linear_swiglu: one weight is panels of 4 bits in groups of 128 columns, "
                       "another panels of 4 bits in groups of 64 columns",
                       Error);
  CHECK_THROWS_WITH_AS(linear_swiglu(stream, x.view(), {borrowed}, {narrow}, y.view()),
                       "linear_swiglu: y is f32 [2, 4] on cpu; wanted f32 [2, 3]", Error);
  const Tensor scale = random_f32({3}, 6);
  CHECK_THROWS_WITH_AS(linear_add_scaled(stream, x.view(), {borrowed}, scale.view(), y.view()),
                       "linear_add_scaled: scale is f32 [3] on cpu; wanted f32, bf16 or f16 [4]",
                       Error);
  CHECK_THROWS_WITH_AS(linear_add_scaled(stream, x.view(), {borrowed}, {}, y.view()),
                       "linear_add_scaled: scale is empty; without one call linear_add()", Error);
}

TEST_SUITE_END();
