#include "base/page_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"

namespace caption {
namespace internal {

// begin == 0 marks a free entry. `end` is written before `begin`, and `begin` is cleared before
// `end`.
struct GuardedRange {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> has_lost_pages = false;
  bool is_taken = false;  // guarded by g_mutex
};

}  // namespace internal

namespace {

using internal::GuardedRange;

// The table grows by blocks and never shrinks, so that the handler can walk it without a lock.
struct Block {
  std::array<GuardedRange, 64> ranges;
  std::atomic<Block*> next = nullptr;
};

std::mutex g_mutex;  // for taking and freeing ranges; the handler never locks it
Block g_first_block;
struct sigaction g_previous = {};  // written once, before the handler can run
std::uintptr_t g_page_bytes = 0;   // written once, before the handler can run

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
                  std::atomic<Block*>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a signal handler may only use atomics without locks");

// Async-signal-safe. Sets `end` to the end of the range that holds the address.
GuardedRange* find_range(std::uintptr_t address, std::uintptr_t& end) {
  for (Block* block = &g_first_block; block != nullptr; block = block->next.load()) {
    for (GuardedRange& range : block->ranges) {
      const std::uintptr_t begin = range.begin.load();
      end = range.end.load();
      // `begin` is read again: between the two loads the entry may have been reused for another
      // mapping.
      if (begin != 0 && begin <= address && address < end && range.begin.load() == begin) {
        return &range;
      }
    }
  }
  return nullptr;
}

void call_previous(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
    return;
  }
  const bool was_sent = info->si_code <= 0;  // kill() or similar sent it, not a memory access
  if (g_previous.sa_handler == SIG_IGN && was_sent) return;
  if (g_previous.sa_handler != SIG_IGN && g_previous.sa_handler != SIG_DFL) {
    g_previous.sa_handler(signal);
    return;
  }
  // The failed access is repeated after this handler returns, and then ends the process.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  if (was_sent) ::raise(signal);
}

// Async-signal-safe: mmap() is a plain system call.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  std::uintptr_t end = 0;
  GuardedRange* const range = info->si_code == BUS_ADRERR ? find_range(address, end) : nullptr;
  if (range == nullptr) {
    call_previous(signal, info, context);
    return;
  }
  const std::uintptr_t page = address / g_page_bytes * g_page_bytes;
  range->has_lost_pages.store(true);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of a page; nothing is read through it
  void* const first = reinterpret_cast<void*>(page);
  const void* const zeros =
      ::mmap(first, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (zeros == MAP_FAILED) call_previous(signal, info, context);
  errno = error_number;
}

void install_handler() {
  g_page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::sigaction(SIGBUS, nullptr, &g_previous);
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

GuardedRange* take_range() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (Block* block = &g_first_block;;) {
    for (GuardedRange& range : block->ranges) {
      if (range.is_taken) continue;
      range.is_taken = true;
      return &range;
    }
    if (block->next.load() == nullptr) block->next.store(new (std::nothrow) Block);
    block = block->next.load();
    if (block == nullptr) throw Error(ErrorCode::kOutOfMemory, "no memory to guard a mapped file");
  }
}

}  // namespace

PageGuard::PageGuard(const std::byte* begin, std::size_t size_bytes) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  range_ = take_range();
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t past = address + size_bytes + g_page_bytes - 1;
  range_->has_lost_pages.store(false);
  range_->end.store(past / g_page_bytes * g_page_bytes);
  range_->begin.store(address);
}

PageGuard::~PageGuard() {
  if (range_ == nullptr) return;
  range_->begin.store(0);
  range_->end.store(0);
  const std::lock_guard<std::mutex> lock(g_mutex);
  range_->is_taken = false;
}

PageGuard::PageGuard(PageGuard&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}

PageGuard& PageGuard::operator=(PageGuard&& other) noexcept {
  std::swap(range_, other.range_);
  return *this;
}

bool PageGuard::has_lost_pages() const {
  return range_ != nullptr && range_->has_lost_pages.load();
}

}  // namespace caption
