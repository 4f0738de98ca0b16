#include "tensor/tensor.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

using caption::ConstView;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::Shape;
using caption::Tensor;
using caption::View;

namespace {

// Returns a tensor with the elements 0, 1, 2, ...
Tensor counting(const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  float* const begin = tensor.as<float>();
  std::iota(begin, begin + tensor.num_elements(), 0.0F);
  return tensor;
}

}  // namespace

TEST_SUITE_BEGIN("tensor/tensor");

TEST_CASE("owns zeros of every dtype") {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kU8, DType::kI32, DType::kI64}) {
    const Tensor tensor = Tensor::zeros(dtype, {3, 5});
    CHECK(tensor.dtype() == dtype);
    CHECK(tensor.size_bytes() == 15 * caption::dtype_size_bytes(dtype));
    const auto* const bytes = static_cast<const unsigned char*>(tensor.view().raw());
    CHECK(std::accumulate(bytes, bytes + tensor.size_bytes(), 0) == 0);
  }
}

TEST_CASE("a clone has its own memory") {
  Tensor tensor = counting({2, 3});
  const Tensor copy = tensor.clone();
  tensor.as<float>()[5] = -1;
  CHECK(copy.as<float>()[5] == 5);
  CHECK(copy.shape() == Shape{2, 3});
}

TEST_CASE("without elements is empty and still has a shape") {
  const Tensor tensor(DType::kF32, {0, 64});
  CHECK(tensor.empty());
  CHECK(tensor.view().is_dense());
  CHECK(tensor.dim(1) == 64);
  CHECK(tensor.clone().shape() == Shape{0, 64});
}

TEST_CASE("a tensor whose bytes overflow is refused before anything is allocated") {
  CHECK_THROWS_AS(Tensor(DType::kI64, {std::int64_t{1} << 62, 1}), Error);
  CHECK_THROWS_AS(Tensor(DType::kF32, {std::int64_t{1} << 40, 1LL << 40}), Error);
}

TEST_CASE("rows of a view are the same memory, further on") {
  Tensor tensor = counting({4, 2, 3});
  const View rows = tensor.view().rows(1, 2);
  CHECK(rows.shape() == Shape{2, 2, 3});
  CHECK(rows.as<float>()[0] == 6);
  CHECK(rows.is_dense());
  CHECK(tensor.view().rows(4, 0).shape() == Shape{0, 2, 3});
  CHECK_THROWS_AS(tensor.view().rows(3, 2), Error);
  CHECK_THROWS_AS(tensor.view().rows(-1, 1), Error);
  CHECK_THROWS_AS(tensor.view().rows(1, std::numeric_limits<std::int64_t>::max()), Error);
}

TEST_CASE("columns of a matrix are a strided view") {
  Tensor tensor = counting({3, 10});
  const View columns = tensor.view().columns(4, 2);
  CHECK(columns.shape() == Shape{3, 2});
  CHECK(columns.row_stride() == 10);
  CHECK_FALSE(columns.is_dense());
  CHECK(columns.as<float>()[columns.row_stride() * 2 + 1] == 25);
  CHECK(columns.rows(1, 1).as<float>()[0] == 14);
  CHECK(columns.rows(1, 1).is_dense());
  CHECK_THROWS_AS(tensor.view().columns(9, 2), Error);
  CHECK_THROWS_AS(tensor.view().reshape({3, 5, 2}).columns(0, 1), Error);
}

TEST_CASE("a dense view takes any shape of as many elements, a strided one keeps its rows") {
  Tensor tensor = counting({3, 12});
  CHECK(tensor.view().reshape({6, 2, 3}).as<float>()[35] == 35);
  CHECK_THROWS_AS(tensor.view().reshape({5, 7}), Error);
  const View columns = tensor.view().columns(0, 8);
  const View heads = columns.reshape({3, 4, 2});
  CHECK(heads.row_stride() == 12);
  CHECK(heads.as<float>()[heads.row_stride()] == 12);
  CHECK_THROWS_AS(columns.reshape({6, 4}), Error);
}

TEST_CASE("a view of another dtype is refused") {
  const Tensor tensor = counting({2});
  CHECK_THROWS_AS(static_cast<void>(tensor.view().as<std::int32_t>()), Error);
}

TEST_CASE("a row stride shorter than a row is refused") {
  const Tensor tensor = counting({2, 4});
  CHECK_THROWS_AS(ConstView(tensor.view().raw(), DType::kF32, {2, 4}, 3, Device::kCpu), Error);
}

TEST_CASE("a span becomes a view of rank 1") {
  const std::vector<std::int32_t> ids{7, 8, 9};
  const ConstView view = caption::view_of(std::span<const std::int32_t>(ids));
  CHECK(view.dtype() == DType::kI32);
  CHECK(view.shape() == Shape{3});
  CHECK(view.as<std::int32_t>()[2] == 9);
}

TEST_SUITE_END();
