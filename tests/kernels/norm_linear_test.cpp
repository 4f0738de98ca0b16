#include "kernels/norm_linear.h"

#include <vector>

#include "base/error.h"
#include "kernels/norm.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using namespace caption::kernels;
using namespace caption::testing;

namespace {

constexpr float kEps = 1e-6F;

struct Operands {
  Operands()
      : x(random_f32({5, 40}, 1)),
        norm(random_of(DType::kBF16, {40}, 2)),
        gate_rows(random_of(DType::kBF16, {7, 40}, 3)),
        up_rows(random_of(DType::kBF16, {7, 40}, 4)),
        wide_rows(random_f32({3, 40}, 5)),
        gate(std::as_const(gate_rows).view()),
        up(std::as_const(up_rows).view()),
        wide(std::as_const(wide_rows).view()),
        normed(DType::kF32, {5, 40}),
        y(DType::kF32, {5, 7}),
        wide_y(DType::kF32, {5, 3}) {}

  RowsToNorm input() {
    return {.x = std::as_const(x).view(),
            .weight = std::as_const(norm).view(),
            .eps = kEps,
            .normed = normed.view()};
  }

  Tensor x, norm, gate_rows, up_rows, wide_rows;
  Weight gate, up, wide;
  Tensor normed, y, wide_y;
};

}  // namespace

TEST_SUITE_BEGIN("kernels/norm_linear");

TEST_CASE("layers of normalised rows have the bits of the norm and the layers, one by one") {
  for_each_stream([](Stream& stream) {
    Operands want;
    rms_norm(stream, want.x.view(), want.norm.view(), kEps, want.normed.view());
    linear(stream, want.normed.view(), want.gate, ConstView{}, want.y.view());
    linear(stream, want.normed.view(), want.wide, ConstView{}, want.wide_y.view());
    Operands got;
    // Their forms differ: a pass for each.
    const LinearPart parts[] = {{got.gate, {}, got.y.view()}, {got.wide, {}, got.wide_y.view()}};
    norm_linear(stream, got.input(), parts);
    CHECK(same_bits(got.y, want.y));
    CHECK(same_bits(got.wide_y, want.wide_y));
    Operands alone;
    const LinearPart part{alone.gate, {}, alone.y.view()};
    norm_linear(stream, alone.input(), std::span(&part, 1));
    CHECK(same_bits(alone.y, want.y));

    linear_swiglu(stream, want.normed.view(), {want.gate}, {want.up}, want.y.view());
    norm_linear_swiglu(stream, got.input(), {got.gate}, {got.up}, got.y.view());
    CHECK(same_bits(got.y, want.y));
  });
}

TEST_CASE("wrong operands are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  Operands operands;
  const auto run = [&](const RowsToNorm& input) {
    const LinearPart part{operands.gate, {}, operands.y.view()};
    norm_linear(stream, input, std::span(&part, 1));
  };
  RowsToNorm input = operands.input();
  input.weight = std::as_const(operands.norm).view().rows(0, 39);
  CHECK_THROWS_WITH_AS(
      run(input), "norm_linear: norm is bf16 [39] on cpu; wanted f32, bf16 or f16 [40]", Error);
  input = operands.input();
  input.normed = operands.normed.view().rows(0, 4);
  CHECK_THROWS_WITH_AS(run(input), "norm_linear: normed is f32 [4, 40] on cpu; wanted f32 [5, 40]",
                       Error);
  input = operands.input();
  input.eps = 0;
  CHECK_THROWS_WITH_AS(run(input), "norm_linear: eps is not positive", Error);
  CHECK_THROWS_WITH_AS(norm_linear_swiglu(stream, operands.input(), {operands.gate}, {operands.up},
                                          operands.wide_y.view()),
                       "norm_linear_swiglu: y is f32 [5, 3] on cpu; wanted f32 [5, 7]", Error);
}

TEST_SUITE_END();
