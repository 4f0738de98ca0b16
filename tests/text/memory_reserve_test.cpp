// A failing allocation uses the reserve; without a reserve it throws.
#include "text/internal/memory_reserve.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <new>

namespace caption::text {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

// Runs `attempt` in a child process whose address space may grow by 192 MB, which is more than the
// heap can have kept from earlier tests. True when `attempt` does not throw.
[[maybe_unused]] bool succeeds_in_192_mb(const std::function<void()>& attempt) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::size_t size_pages = 0;
    std::ifstream("/proc/self/statm") >> size_pages;
    const rlim_t bytes =
        size_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + 192 * kMegabyte;
    const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    try {
      attempt();
    } catch (const std::bad_alloc&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) < 2);
  return WEXITSTATUS(status) == 0;
}

void* volatile g_block = nullptr;  // keeps the compiler from removing an allocation

TEST_SUITE("text/memory_reserve") {
// Sanitizers reserve address space, which the limit would not allow.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  TEST_CASE("a refused request gets the reserve, once") {
    CHECK(succeeds_in_192_mb([] {
      const MemoryReserve reserve(128 * kMegabyte);
      g_block = ::operator new(96 * kMegabyte);
    }));
    CHECK_FALSE(succeeds_in_192_mb([] {
      const MemoryReserve reserve(128 * kMegabyte);
      g_block = ::operator new(96 * kMegabyte);
      g_block = ::operator new(120 * kMegabyte);
    }));
    CHECK_FALSE(succeeds_in_192_mb([] {
      { const MemoryReserve over(128 * kMegabyte); }
      g_block = ::operator new(96 * kMegabyte);
      g_block = ::operator new(120 * kMegabyte);
    }));
  }

  TEST_CASE("a reserve that cannot be had is refused before the call that it is for") {
    CHECK_FALSE(succeeds_in_192_mb([] { const MemoryReserve reserve(256 * kMegabyte); }));
  }
#else
  TEST_CASE("a refused request gets the reserve, once") {
    MESSAGE("not tested under sanitizers: allocations in a limited address space");
  }
#endif
}

}  // namespace
}  // namespace caption::text
