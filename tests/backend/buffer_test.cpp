#include "backend/buffer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

using caption::Buffer;
using caption::Device;
using caption::Error;
using caption::ErrorCode;
using caption::Paging;

TEST_SUITE_BEGIN("backend/buffer");

TEST_CASE("is aligned to a cache line and writable to its last byte") {
  for (const std::size_t size : {1UL, 63UL, 64UL, 65UL, 1000003UL, 4194303UL, 4194304UL}) {
    CAPTURE(size);
    const Buffer buffer(Device::kCpu, size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.begin()) % 64 == 0);
    CHECK(buffer.size_bytes() == size);
    std::memset(buffer.begin(), 0xA5, size);
    CHECK(buffer.begin()[size - 1] == std::byte{0xA5});
  }
}

TEST_CASE("staging memory is the host's, for every device that this build has") {
  for (const Device device : {Device::kCpu, Device::kMirror}) {
    const Buffer buffer = Buffer::staging(device, 1000);
    CHECK(buffer.device() == Device::kCpu);
    std::memset(buffer.begin(), 0xA5, 1000);
    CHECK(buffer.begin()[999] == std::byte{0xA5});
  }
  CHECK_THROWS_AS(Buffer::staging(Device::kCuda, 1000), Error);
}

// Returns how many bytes of the buffer are resident in memory.
std::size_t resident_bytes(const Buffer& buffer) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_resident((buffer.size_bytes() + page_bytes - 1) / page_bytes);
  REQUIRE(::mincore(buffer.begin(), buffer.size_bytes(), is_resident.data()) == 0);
  std::size_t num_pages = 0;
  for (const unsigned char flags : is_resident) num_pages += flags & 1u;
  return num_pages * page_bytes;
}

TEST_CASE("large ones lie at the start of a huge page and hold no memory before they are written") {
  constexpr std::size_t kSize = caption::kHugeBufferBytes + 12345;
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  struct Case {
    Paging paging;
    std::size_t most_bytes;  // most memory that writing one byte may commit
  };
  for (const auto& [paging, most_bytes] :
       {Case{Paging::kHuge, caption::kHugePageBytes}, Case{Paging::kSmall, page_bytes}}) {
    const Buffer buffer(Device::kCpu, kSize, paging);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.begin()) % caption::kHugePageBytes == 0);
    CHECK(resident_bytes(buffer) == 0);
    buffer.begin()[kSize - 1] = std::byte{1};
    buffer.begin()[0] = std::byte{1};
    CHECK(resident_bytes(buffer) >= 2 * page_bytes);
    CHECK(resident_bytes(buffer) <= 2 * most_bytes);
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
    CHECK(std::string(error.what()).find("refused 1.13 PB of memory") != std::string::npos);
  }
}

TEST_CASE("on a device this build lacks is unavailable, by name") {
  CHECK_THROWS_WITH_AS(Buffer(Device::kCuda, 64),
                       "cuda: this build has no CUDA kernels; run on the device \"cpu\"", Error);
}

TEST_SUITE_END();
