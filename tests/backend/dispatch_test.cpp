#include "backend/dispatch.h"

#include <doctest/doctest.h>

#include <type_traits>

#include "backend/machine.h"
#include "base/error.h"

using caption::Device;
using caption::dispatch;
using caption::Error;
using caption::ErrorCode;

TEST_SUITE_BEGIN("backend/dispatch");

TEST_CASE("calls the work once, with the device's tag, and returns what it returns") {
  int calls = 0;
  const bool is_cpu = dispatch(Device::kCpu, [&](auto device) {
    ++calls;
    return std::is_same_v<decltype(device), caption::Cpu>;
  });
  CHECK(is_cpu);
  CHECK(calls == 1);
}

TEST_CASE("to a device without kernels throws, naming the device") {
  REQUIRE_FALSE(caption::has_cuda_kernels());
  int calls = 0;
  try {
    dispatch(Device::kCuda, [&](auto) { ++calls; });
    FAIL("the CUDA dispatch returned");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnavailable);
    CHECK(std::string(error.what()).starts_with("cuda: this build has no CUDA kernels"));
  }
  CHECK(calls == 0);
}

TEST_SUITE_END();
