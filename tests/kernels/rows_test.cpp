#include "kernels/rows.h"

#include <vector>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/embedding.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::ErrorCode;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::add_rows;
using caption::kernels::convert;
using caption::kernels::embedding;
using caption::kernels::gather_rows;
using caption::kernels::scatter_rows;
using namespace caption::testing;

namespace {

constexpr DType kFloating[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace

TEST_SUITE_BEGIN("kernels/rows");

TEST_CASE("embedding widens the rows named by the ids") {
  const std::vector<std::int32_t> ids{6, 0, 3, 3, 6};
  for (const DType dtype : kFloating) {
    const Tensor table = random_of(dtype, {7, 33}, 1);
    const std::vector<double> rows = values(table);
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {5, 33});
      embedding(stream, indices(ids).view(), table.view(), y.view());
      int different = 0;
      for (std::size_t t = 0; t < ids.size(); ++t) {
        for (std::size_t c = 0; c < 33; ++c) {
          different += y.as<float>()[t * 33 + c] !=
                       static_cast<float>(rows[static_cast<std::size_t>(ids[t]) * 33 + c]);
        }
      }
      CHECK(different == 0);
    });
  }
}

TEST_CASE("gather then scatter with a permutation is the identity, for any dtype") {
  const std::vector<std::int32_t> order{3, 0, 4, 1, 2};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32, DType::kU8}) {
    CAPTURE(static_cast<int>(dtype));
    Tensor x(dtype, {5, 19});
    auto* const bytes = static_cast<unsigned char*>(x.view().raw());
    for (std::size_t i = 0; i < x.size_bytes(); ++i) bytes[i] = static_cast<unsigned char>(i * 37);
    for_each_stream([&](Stream& stream) {
      Tensor gathered(dtype, {5, 19});
      gather_rows(stream, x.view(), indices(order).view(), gathered.view());
      CHECK_FALSE(same_bits(x, gathered));
      Tensor back(dtype, {5, 19});
      scatter_rows(stream, gathered.view(), indices(order).view(), back.view());
      CHECK(same_bits(x, back));
    });
  }
}

TEST_CASE("add_rows adds columns of a wider matrix to the rows it is given") {
  const Tensor before = random_f32({4, 3}, 2);
  const Tensor wide = random_f32({2, 9}, 3);
  for_each_stream([&](Stream& stream) {
    Tensor y = before.clone();
    add_rows(stream, wide.view().columns(3, 3), indices({2, 0}).view(), y.view());
    for (std::int64_t i = 0; i < 12; ++i) {
      const std::int64_t row = i / 3;
      float want = before.as<float>()[i];
      if (row == 2) want += wide.as<float>()[3 + i % 3];
      if (row == 0) want += wide.as<float>()[9 + 3 + i % 3];
      CHECK(y.as<float>()[i] == want);
    }
    CHECK_THROWS_AS(add_rows(stream, wide.view().columns(0, 3), indices({4, 0}).view(), y.view()),
                    Error);
  });
}

TEST_CASE("scatter leaves the rows it is not given") {
  ThreadPool pool(2);
  Stream stream(pool);
  const Tensor before = random_f32({4, 3}, 2);
  const Tensor x = random_f32({1, 3}, 3);
  Tensor y = before.clone();
  scatter_rows(stream, x.view(), indices({2}).view(), y.view());
  for (std::int64_t i = 0; i < 12; ++i) {
    const float want = i / 3 == 2 ? x.as<float>()[i % 3] : before.as<float>()[i];
    CHECK(y.as<float>()[i] == want);
  }
}

TEST_CASE("an index outside the rows is our own bug, named with its value") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({4, 3}, 4);
  Tensor y(DType::kF32, {2, 3});
  for (const std::int32_t bad : {-1, 4, 1 << 30}) {
    CAPTURE(bad);
    const Tensor rows = indices({0, bad});
    CHECK_THROWS_AS(gather_rows(stream, x.view(), rows.view(), y.view()), Error);
    CHECK_THROWS_AS(embedding(stream, rows.view(), x.view(), y.view()), Error);
    Tensor target = x.clone();
    CHECK_THROWS_AS(scatter_rows(stream, y.view(), rows.view(), target.view()), Error);
    try {
      embedding(stream, rows.view(), x.view(), y.view());
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInternal);
      CHECK(std::string(error.what()).find("id " + std::to_string(bad)) != std::string::npos);
    }
  }
}

TEST_CASE("convert rounds as the scalar conversions do, strided views included") {
  Tensor x = random_f32({6, 40}, 5);
  x.as<float>()[0] = 1e6F;   // overflows f16
  x.as<float>()[1] = 1e-6F;  // an f16 subnormal
  x.as<float>()[2] = -0.0F;
  for_each_stream([&](Stream& stream) {
    for (const DType dtype : kFloating) {
      Tensor y(dtype, {6, 10});
      convert(stream, x.view().columns(0, 10), y.view());
      caption::dispatch_float(dtype, [&](auto tag) {
        using T = decltype(tag);
        int different = 0;
        for (std::int64_t i = 0; i < 60; ++i) {
          const float from = x.as<float>()[i / 10 * 40 + i % 10];
          const float want = caption::to_float(caption::from_float<T>(from));
          different += caption::to_float(y.as<T>()[i]) != want;
        }
        CHECK(different == 0);
      });
      Tensor wide(DType::kF32, {6, 10});
      convert(stream, y.view(), wide.view());
      CHECK(same_bits(converted(wide, dtype), y));
    }
  });
}

TEST_CASE("wrong shapes and dtypes are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({4, 3}, 6);
  Tensor y(DType::kF32, {2, 4});
  const Tensor rows = indices({0, 1});
  CHECK_THROWS_WITH_AS(gather_rows(stream, x.view(), rows.view(), y.view()),
                       "gather_rows: y is f32 [2, 4] on cpu; wanted f32 [2, 3]", Error);
  CHECK_THROWS_WITH_AS(scatter_rows(stream, x.view(), rows.view(), y.view()),
                       "scatter_rows: x is f32 [4, 3] on cpu; wanted f32 [2, 3]", Error);
  CHECK_THROWS_WITH_AS(embedding(stream, x.view(), x.view(), y.view()),
                       "embedding: ids is f32 [4, 3] on cpu; wanted 1 axes", Error);
  CHECK_THROWS_WITH_AS(convert(stream, rows.view(), y.view()),
                       "convert: x is i32 [2] on cpu; wanted f32, bf16 or f16 [2]", Error);
}

TEST_SUITE_END();
