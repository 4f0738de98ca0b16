#include "backend/mirror.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "backend/buffer.h"
#include "backend/dispatch.h"

using caption::Buffer;
using caption::Device;
using caption::MirrorAccess;

namespace {

// Returns the signal that ends a child process which reads the byte, or 0 if it ends by itself.
int signal_of_read(const std::byte* byte) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // instead of a sanitizer's handler
    const volatile std::byte value = *byte;
    ::_exit(value == std::byte{0} ? 0 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_SUITE_BEGIN("backend/mirror");

TEST_CASE("memory faults except while access is granted, and keeps its contents") {
  const Buffer buffer(Device::kMirror, 100'000);
  CHECK_FALSE(caption::mirror_is_accessible());
  CHECK(signal_of_read(buffer.begin()) == SIGSEGV);
  {
    const MirrorAccess access;
    CHECK(caption::mirror_is_accessible());
    CHECK(signal_of_read(buffer.begin()) == 0);
    const MirrorAccess nested;
    std::memset(buffer.begin(), 7, buffer.size_bytes());
  }
  CHECK(signal_of_read(buffer.begin() + 99'999) == SIGSEGV);
  const MirrorAccess access;
  CHECK(buffer.begin()[0] == std::byte{7});
  CHECK(buffer.begin()[99'999] == std::byte{7});
}

TEST_CASE("fresh memory is NaN, also where other memory was freed") {
  for (int round = 0; round < 2; ++round) {
    const Buffer buffer(Device::kMirror, 5000);
    const MirrorAccess access;
    for (std::size_t i = 0; i < buffer.size_bytes(); ++i) {
      REQUIRE(buffer.begin()[i] == std::byte{0xFF});
    }
    std::memset(buffer.begin(), 0, buffer.size_bytes());
  }
}

TEST_CASE("buffers are apart in any order of allocation and release") {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < 40; ++i) buffers.emplace_back(Device::kMirror, 1 + i * 911);
  for (std::size_t i = 0; i < 40; i += 3) buffers[i] = Buffer();
  for (std::size_t i = 0; i < 40; i += 3) buffers[i] = Buffer(Device::kMirror, 20'000 - i * 100);
  const MirrorAccess access;
  for (std::size_t i = 0; i < 40; ++i) {
    std::memset(buffers[i].begin(), static_cast<int>(i), buffers[i].size_bytes());
  }
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(buffers[i].begin()[0] == static_cast<std::byte>(i));
    CHECK(buffers[i].begin()[buffers[i].size_bytes() - 1] == static_cast<std::byte>(i));
  }
}

TEST_CASE("threads may allocate, access and free at the same time") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const Buffer buffer(Device::kMirror, 4096 + static_cast<std::size_t>(i));
        caption::dispatch(Device::kMirror, [&](caption::Cpu) {
          std::memset(buffer.begin(), t, buffer.size_bytes());
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(caption::mirror_is_accessible());
}

TEST_CASE("the range ends at its size") {
  CHECK(caption::allocate_mirror(std::size_t{1} << 40) == nullptr);
}

TEST_SUITE_END();
