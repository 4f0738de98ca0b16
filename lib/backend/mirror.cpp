#include "backend/mirror.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "backend/buffer.h"
#include "base/error.h"

namespace caption {
namespace {

constexpr std::size_t kAlignmentBytes = 64;
// Address space, not memory: only what is allocated is committed.
constexpr std::size_t kRangeBytes = std::size_t{8} << 30;
// Larger allocations, KV pages above all, are filled at the beginning only: what is committed slows
// every access down.
constexpr std::size_t kFilledBytes = std::size_t{1} << 15;

std::size_t round_up(std::size_t size_bytes, std::size_t unit) {
  return (size_bytes + unit - 1) / unit * unit;
}

// Memory below `end_` has been allocated at some time; its protection changes in one call.
class MirrorRange {
 public:
  static MirrorRange& instance() {
    static MirrorRange range;
    return range;
  }

  std::byte* allocate(std::size_t size_bytes) {
    const std::size_t wanted = round_up(size_bytes, kAlignmentBytes);
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end()) return nullptr;
    std::byte* const begin = found->first;
    const std::size_t left = found->second - wanted;
    free_.erase(found);
    if (left > 0) free_.emplace(begin + wanted, left);
    end_ = std::max(end_, begin + wanted);
    protect(PROT_READ | PROT_WRITE);
    std::memset(begin, 0xFF, std::min(wanted, kFilledBytes));
    if (num_accesses_ == 0) protect(PROT_NONE);
    return begin;
  }

  void free(std::byte* begin, std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    auto range = free_.emplace(begin, round_up(size_bytes, kAlignmentBytes)).first;
    const auto next = std::next(range);
    if (next != free_.end() && range->first + range->second == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    const auto before = std::prev(range);
    if (before->first + before->second != range->first) return;
    before->second += range->second;
    free_.erase(range);
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (num_accesses_++ == 0) protect(PROT_READ | PROT_WRITE);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    if (--num_accesses_ == 0) protect(PROT_NONE);
  }

  bool is_open() const { return num_accesses_.load() > 0; }

 private:
  MirrorRange() {
    void* const mapped = ::mmap(nullptr, kRangeBytes + kHugePageBytes, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;
    const auto address = reinterpret_cast<std::uintptr_t>(mapped);
    begin_ = end_ = static_cast<std::byte*>(mapped) + (round_up(address, kHugePageBytes) - address);
    // A change of protection costs time for each page that is in use.
    ::madvise(begin_, kRangeBytes, MADV_HUGEPAGE);
    free_.emplace(begin_, kRangeBytes);
  }

  void protect(int access) {
    const std::size_t size_bytes =
        round_up(static_cast<std::size_t>(end_ - begin_), kHugePageBytes);
    if (size_bytes == 0) return;
    CAPTION_CHECK(::mprotect(begin_, size_bytes, access) == 0, "mirror: mprotect failed");
  }

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::map<std::byte*, std::size_t> free_;
  std::atomic<int> num_accesses_{0};
};

}  // namespace

MirrorAccess::MirrorAccess() { MirrorRange::instance().open(); }

MirrorAccess::~MirrorAccess() { MirrorRange::instance().close(); }

bool mirror_is_accessible() { return MirrorRange::instance().is_open(); }

std::byte* allocate_mirror(std::size_t size_bytes) {
  return MirrorRange::instance().allocate(size_bytes);
}

void free_mirror(std::byte* begin, std::size_t size_bytes) noexcept {
  MirrorRange::instance().free(begin, size_bytes);
}

}  // namespace caption
