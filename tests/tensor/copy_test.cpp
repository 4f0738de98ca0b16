#include "tensor/copy.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/error.h"

using caption::Device;
using caption::DType;
using caption::Error;
using caption::StagedTensor;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;

namespace {

// [4, 6] f32 with the numbers 0, 1, ... in the order of memory.
Tensor counted() {
  Tensor tensor(DType::kF32, {4, 6});
  std::iota(tensor.as<float>(), tensor.as<float>() + 24, 0.0F);
  return tensor;
}

}  // namespace

TEST_SUITE_BEGIN("tensor/copy");

TEST_CASE("columns come back from every device as they went, and nothing else is written") {
  ThreadPool pool(1);
  Stream stream(pool);
  for (const Device device : {Device::kCpu, Device::kMirror}) {
    CAPTURE(caption::device_name(device));
    Tensor from = counted();
    const Tensor there = copy_to(stream, device, from.view().columns(1, 3));
    CHECK(there.device() == device);
    Tensor back = Tensor::zeros(DType::kF32, {4, 6});
    copy(stream, there.view(), back.view().columns(2, 3));
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t column = 0; column < 6; ++column) {
        const bool is_written = column >= 2 && column < 5;
        const float wanted = is_written ? static_cast<float>(row * 6 + column - 1) : 0.0F;
        CHECK(back.as<float>()[row * 6 + column] == wanted);
      }
    }
  }
}

TEST_CASE("tensors of other shapes or dtypes are not copied, and the host cannot read a device's") {
  ThreadPool pool(1);
  Stream stream(pool);
  Tensor from = counted();
  Tensor other(DType::kF32, {6, 4});
  Tensor rounded(DType::kBF16, {4, 6});
  CHECK_THROWS_AS(copy(stream, from.view(), other.view()), Error);
  CHECK_THROWS_AS(copy(stream, from.view(), rounded.view()), Error);
  const Tensor there = copy_to(stream, Device::kMirror, from.view());
  CHECK_THROWS_WITH_AS(there.view().as<float>(), doctest::Contains("memory of a device"), Error);
  CHECK_THROWS_AS(there.as<float>(), Error);
}

TEST_CASE("a staged tensor is one memory on the CPU, and two where the device is another") {
  ThreadPool pool(1);
  Stream stream(pool);
  StagedTensor shared(Device::kCpu, DType::kF32, {4, 6});
  CHECK(shared.host().raw() == shared.device().raw());
  StagedTensor apart(Device::kMirror, DType::kF32, {4, 6});
  REQUIRE(apart.host().raw() != apart.device().raw());
  const Tensor from = counted();
  copy(stream, from.view(), apart.host());
  apart.upload(stream, 2);
  copy(stream, Tensor::zeros(DType::kF32, {4, 6}).view(), apart.host());
  apart.download(stream, 1, 1);
  stream.synchronize();
  CHECK(apart.host().as<float>()[11] == 11);
  CHECK(apart.host().as<float>()[5] == 0);  // rows before and beyond those were not copied
  CHECK(apart.host().as<float>()[12] == 0);
}

TEST_SUITE_END();
