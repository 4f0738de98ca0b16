#include "backend/buffer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

using caption::Buffer;
using caption::Device;
using caption::Error;
using caption::ErrorCode;

TEST_SUITE_BEGIN("backend/buffer");

TEST_CASE("is aligned to a cache line and writable to its last byte") {
  for (const std::size_t size : {1UL, 63UL, 64UL, 65UL, 1000003UL}) {
    CAPTURE(size);
    const Buffer buffer(Device::kCpu, size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.begin()) % 64 == 0);
    CHECK(buffer.size_bytes() == size);
    std::memset(buffer.begin(), 0xA5, size);
    CHECK(buffer.begin()[size - 1] == std::byte{0xA5});
  }
}

TEST_CASE("of no bytes holds no memory") {
  const Buffer buffer(Device::kCpu, 0);
  CHECK(buffer.begin() == nullptr);
  CHECK(buffer.size_bytes() == 0);
}

TEST_CASE("moves its memory and leaves nothing behind") {
  Buffer first(Device::kCpu, 128);
  std::byte* const memory = first.begin();
  Buffer second(std::move(first));
  CHECK(second.begin() == memory);
  CHECK(first.begin() == nullptr);  // NOLINT(bugprone-use-after-move): the state is specified
  CHECK(first.size_bytes() == 0);
  Buffer third(Device::kCpu, 64);
  third = std::move(second);
  CHECK(third.begin() == memory);
  CHECK(third.size_bytes() == 128);
  CHECK(second.begin() == nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("says how much the system refused") {
  try {
    const Buffer buffer(Device::kCpu, std::size_t{1} << 50);
    FAIL("a petabyte was granted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(std::string(error.what()).find("1125899906842624 bytes") != std::string::npos);
  }
}

TEST_CASE("on a device this build lacks is unavailable, by name") {
  CHECK_THROWS_WITH_AS(Buffer(Device::kCuda, 64),
                       "cuda: this build has no CUDA kernels; run on the device \"cpu\"", Error);
}

TEST_SUITE_END();
