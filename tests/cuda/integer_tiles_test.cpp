// Dense layers with 8-bit activations for many rows, on the emulated GPU: their sums are integers,
// so they have the CPU's bits, whatever blocks compute them.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cuda/dense_layer.h"
#include "kernels/linear.h"
#include "kernels/swiglu.h"
#include "tests/cuda/dense_testing.h"
#include "tests/kernels/random_codes.h"

using caption::ConstView;
using caption::DType;
using caption::QuantisedMatrix;
using caption::Stream;
using caption::Tensor;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cuda::CodeBlocks;
using caption::kernels::cuda::multiply_codes;
using namespace caption::testing;

namespace {

constexpr Kind kIntegerKinds[] = {Kind::k8A8, Kind::k4A8};
constexpr CodeBlocks kManyRows[] = {CodeBlocks::kSmall, CodeBlocks::kLarge};
// One before sm_80, where registers hold the next stage, and one from it on.
constexpr int kCapabilities[] = {75, 80};

caption::Context gpu_of(int capability) {
  return {.device = caption::Device::kCuda, .compute_capability = capability};
}

Weight place(Stream& stream, Kind kind, const QuantisedMatrix& matrix) {
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return slice(matrix, first, count);
  };
  return caption::kernels::place_quantised(stream, format_of(kind), matrix.num_rows(), rows);
}

Tensor product_on_cpu(Kind kind, const QuantisedMatrix& matrix, const Tensor& x,
                      const Tensor& bias) {
  Tensor y(DType::kF32, {x.dim(0), matrix.num_rows()});
  run_on_cpu([&](Stream& stream) {
    const Weight weight = place(stream, kind, matrix);
    caption::kernels::linear(stream, x.view(), weight, bias.view(), y.view());
  });
  return y;
}

// x * matrix^T + bias by the blocks of a capability, with x and y strided.
Tensor product(Kind kind, const QuantisedMatrix& matrix, const Tensor& x, const Tensor& bias,
               CodeBlocks blocks, int capability, std::uint64_t seed) {
  const DeviceTensor device_x(x, x.dim(1) + 4 - x.dim(1) % 4);
  const DeviceTensor device_bias(bias);
  const DeviceTensor y(DType::kF32, {x.dim(0), matrix.num_rows()}, matrix.num_rows() + 1);
  run_with({.seed = seed}, gpu_of(capability), [&](Stream& stream) {
    const Weight weight = place(stream, kind, matrix);
    const LinearPart part{weight, device_bias.view(), y.view()};
    multiply_codes(stream, {.x = device_x.view(), .parts = {&part, 1}}, blocks);
  });
  return y.to_host();
}

}  // namespace

TEST_SUITE_BEGIN("cuda/integer_tiles");

TEST_CASE("many rows have the CPU's bits, in every block and order of threads") {
  // Rows and features around the edges of blocks and of warps; groups that end within tiles and
  // with them, with columns beyond the matrix; fewer columns than the stages under way, and more.
  struct Case {
    std::int64_t m, n, k, group;
  };
  constexpr Case kCases[] = {{1, 1, 1, 128},     {33, 17, 33, 4},    {63, 65, 96, 32},
                             {65, 20, 201, 16},  {129, 257, 65, 64}, {64, 250, 330, 128},
                             {72, 130, 555, 62}, {130, 15, 700, 96}};
  std::uint64_t seed = 0;
  for (const Kind kind : kIntegerKinds) {
    for (const Case& c : kCases) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.m);
      CAPTURE(c.k);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const Tensor x = random_f32({c.m, c.k}, 1);
      const Tensor bias = random_f32({c.n}, 2);
      const Tensor want = product_on_cpu(kind, matrix, x, bias);
      for (const CodeBlocks blocks : kManyRows) {
        for (const int capability : kCapabilities) {
          CHECK(same_bits(product(kind, matrix, x, bias, blocks, capability, seed++), want));
        }
      }
    }
  }
}

TEST_CASE("a layer of more than 32 rows takes blocks of many rows, with the bits of few") {
  for (const Kind kind : kIntegerKinds) {
    // 18 tiles of 4-bit codes, 35 of 8-bit: the slices of the warps have different lengths.
    const QuantisedMatrix matrix = random_matrix(kind, 19, 1100, 128);
    const Tensor x = random_f32({70, 1100}, 4);
    const Tensor bias = random_f32({19}, 2);
    const auto run = [&](std::int64_t rows, CodeBlocks blocks, int capability) {
      return product(kind, matrix, first_rows(x, rows), bias, blocks, capability, 3);
    };
    for (const std::int64_t rows : {1, 9, 32, 33, 70}) {
      CAPTURE(rows);
      const Tensor want = run(rows, CodeBlocks::kFewRows, 80);
      for (const int capability : kCapabilities) {
        CHECK(same_bits(run(rows, CodeBlocks::kAsNeeded, capability), want));
      }
    }
  }
}

TEST_CASE("the greatest sums are exact, and rows without finite numbers change no others") {
  constexpr std::int64_t kColumns = 9000;  // 127 * 127 * 9,000 has 28 bits
  for (const Kind kind : kIntegerKinds) {
    QuantisedMatrix matrix = random_matrix(kind, 3, kColumns, 128);
    std::fill_n(static_cast<std::uint8_t*>(matrix.codes.view().raw()), matrix.codes.size_bytes(),
                kind == Kind::k8A8 ? 127 : 255);
    Tensor x = random_f32({34, kColumns}, 1);
    std::fill_n(x.as<float>(), kColumns, 0.75F);
    std::fill_n(x.as<float>() + kColumns, kColumns, -0.75F);
    std::fill_n(x.as<float>() + 2 * kColumns, kColumns, 0.0F);
    x.as<float>()[3 * kColumns + 5] = std::numeric_limits<float>::quiet_NaN();
    x.as<float>()[4 * kColumns + 8999] = std::numeric_limits<float>::infinity();
    const Tensor bias = random_f32({3}, 2);
    const Tensor want = product_on_cpu(kind, matrix, x, bias);
    const Tensor got = product(kind, matrix, x, bias, CodeBlocks::kSmall, 80, 1);
    for (std::int64_t i = 0; i < want.num_elements(); ++i) {
      const float expected = want.as<float>()[i];
      CHECK((got.as<float>()[i] == expected ||
             (std::isnan(expected) && std::isnan(got.as<float>()[i]))));
      CHECK(std::isfinite(expected) == (i / 3 != 3 && i / 3 != 4));
    }
  }
}

TEST_CASE("parts in one launch, sums that are added and swiglu have the bits of few rows") {
  std::uint64_t seed = 7;
  for (const Kind kind : kIntegerKinds) {
    const QuantisedMatrix matrices[] = {random_matrix(kind, 75, 200, 64),
                                        random_matrix(kind, 18, 200, 64),
                                        random_matrix(kind, 75, 200, 64)};
    const auto run = [&](CodeBlocks blocks, int capability) {
      return multiply_parts(
          {.seed = seed++}, gpu_of(capability), blocks,
          [&](Stream& stream, int i) { return place(stream, kind, matrices[i]); });
    };
    const std::vector<Tensor> want = run(CodeBlocks::kFewRows, 80);
    for (const CodeBlocks blocks : kManyRows) {
      for (const int capability : kCapabilities) {
        const std::vector<Tensor> got = run(blocks, capability);
        for (std::size_t i = 0; i < want.size(); ++i) CHECK(same_bits(got[i], want[i]));
      }
    }
  }
}

TEST_CASE("neither codes nor x are moved twice over, nor banks met twice") {
  for (const Kind kind : kIntegerKinds) {
    const DeviceTensor x(random_f32({128, 256}, 6));
    const DeviceTensor y(DType::kF32, {128, 256});
    for (const int capability : kCapabilities) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(capability);
      std::optional<Weight> weight;
      run_with({}, gpu_of(capability), [&](Stream& stream) {
        weight.emplace(place(stream, kind, random_matrix(kind, 256, 256, 128)));
      });
      for (const CodeBlocks blocks : kManyRows) {
        const LinearPart part{*weight, {}, y.view()};
        check_wastes_nothing(
            [&](Stream& stream) {
              multiply_codes(stream, {.x = x.view(), .parts = {&part, 1}}, blocks);
            },
            4);
      }
    }
  }
}

TEST_SUITE_END();
