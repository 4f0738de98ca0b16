#include <cmath>
#include <limits>

#include "kernels/convert.h"
#include "tests/cuda/testing.h"

using caption::ConstView;
using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using namespace caption::testing;
namespace kernels = caption::kernels;

namespace {

constexpr DType kFloats[] = {DType::kF32, DType::kBF16, DType::kF16};

// Numbers of f16's range and beyond it, its subnormals, zeros and infinities, and a tie to even.
Tensor wide_numbers(const Shape& shape, std::uint32_t seed) {
  Tensor x = random_f32(shape, seed);
  constexpr float kFactors[] = {1, 0x1p15F, 0x1p17F, 0x1p-14F, 0x1p-24F, 0x1p-130F, 0};
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] *= kFactors[i % 7];
  if (x.num_elements() < 4) return x;
  x.as<float>()[0] = -std::numeric_limits<float>::infinity();
  x.as<float>()[1] = 1 + 0x1p-8F;
  x.as<float>()[2] = 1 + 0x1p-11F;
  return x;
}

struct Case {
  Shape shape;
  std::int64_t x_stride, y_stride;
};

}  // namespace

TEST_SUITE_BEGIN("cuda/convert");

TEST_CASE("conversions between all floating-point dtypes have the CPU's bits") {
  const Case cases[] = {{{1}, 0, 0},          {{1027}, 0, 0},      {{1028}, 0, 0},
                        {{9}, 3, 0},          {{8}, 0, 2},         {{3, 7}, 0, 9},
                        {{2, 1028}, 1032, 0}, {{3, 260}, 261, 0},  {{2, 3, 20}, 0, 64},
                        {{4, 1}, 0, 0},       {{2, 5, 3, 2}, 0, 0}};
  for (const Case& c : cases) {
    for (const DType from : kFloats) {
      for (const DType to : kFloats) {
        CAPTURE(c.shape.to_string());
        CAPTURE(std::string(caption::dtype_name(from)));
        CAPTURE(std::string(caption::dtype_name(to)));
        const Tensor x = converted(wide_numbers(c.shape, 1), from);
        const Tensor want = converted(x, to);
        const DeviceTensor device_x(x, c.x_stride);
        const DeviceTensor y(to, c.shape, c.y_stride);
        run_emulated(c.shape.num_elements() % 3,
                     [&](Stream& stream) { kernels::convert(stream, device_x.view(), y.view()); });
        CHECK(same_bits(y.to_host(), want));
      }
    }
  }
}

TEST_CASE("equal dtypes keep the bits of a NaN, in place too") {
  for (const DType dtype : kFloats) {
    Tensor x(dtype, {2, 6});
    auto* const bytes = static_cast<unsigned char*>(x.view().raw());
    // Quiet and signalling NaNs with payloads.
    for (std::size_t i = 0; i < x.size_bytes(); ++i) bytes[i] = i % 4 == 2 ? 0xBF : 0x7F;
    const DeviceTensor device_x(x);
    const DeviceTensor y(dtype, x.shape());
    run_emulated(2, [&](Stream& stream) {
      kernels::convert(stream, device_x.view(), y.view());
      kernels::convert(stream, device_x.view(), device_x.view());
    });
    CHECK(same_bits(y.to_host(), x));
    CHECK(same_bits(device_x.to_host(), x));
  }
}

TEST_CASE("nothing is launched for no numbers, and a NaN stays one") {
  const DeviceTensor none(DType::kF32, {0, 5});
  Tensor nan(DType::kF32, {1, 3});
  for (int i = 0; i < 3; ++i) nan.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  const DeviceTensor x(nan);
  for (const DType to : {DType::kBF16, DType::kF16}) {
    const DeviceTensor y(to, nan.shape());
    const auto report = run_emulated(0, [&](Stream& stream) {
      kernels::convert(stream, none.view(), none.view());
      kernels::convert(stream, x.view(), y.view());
    });
    CHECK(report.launches == 1);
    for (const double number : values(y.to_host())) CHECK(std::isnan(number));
  }
}

TEST_CASE("aligned rows are converted without a byte moved twice over") {
  const DeviceTensor x(random_f32({2, 1024}, 3));
  const DeviceTensor y(DType::kBF16, {2, 1024});
  const DeviceTensor z(DType::kF32, {2, 1024});
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::convert(stream, x.view(), y.view());
        kernels::convert(stream, y.view(), z.view());
        kernels::convert(stream, x.view(), z.view());
      },
      8);
}

TEST_SUITE_END();
