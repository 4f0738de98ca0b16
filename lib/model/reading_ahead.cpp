#include "model/internal/reading_ahead.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>

#include "base/mapped_file.h"

namespace caption::model {
namespace {

// Read at a time by a thread: two of the pieces that the system reads for a fault in a mapping of
// huge pages.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::size_t kNumThreads = 4;
constexpr std::int64_t kLimitStepBytes = ReadingAhead::kAheadBytes / 4;

// How often this thread has waited in a fault until the system had read a page from a file.
long count_waits() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

// Reads pages; returns whether they had to be read from the disk.
bool populate_from_disk(std::span<const std::byte> bytes) {
  const long before = count_waits();
  populate_pages(bytes);
  return count_waits() != before;
}

// Whether a piece is in the page cache, by one page in each kProbedBytes and the last one. Reads
// around a page that is not, and looks no further.
bool is_probably_cached(std::span<const std::byte> piece) {
  constexpr std::size_t kProbedBytes = std::size_t{2} << 20;
  for (std::size_t at = 0; at < piece.size(); at += kProbedBytes) {
    if (populate_from_disk(piece.subspan(at, 1))) return false;
  }
  return !populate_from_disk(piece.last(1));
}

}  // namespace

ReadingAhead::ReadingAhead(const std::vector<std::vector<std::span<const std::byte>>>& tensors) {
  std::int64_t end = 0;
  for (const auto& tensor : tensors) {
    for (std::span<const std::byte> bytes : tensor) {
      end += std::ssize(bytes);
      while (!bytes.empty()) {
        pieces_.push_back(bytes.first(std::min(bytes.size(), kPieceBytes)));
        bytes = bytes.subspan(pieces_.back().size());
      }
    }
    ends_.push_back(end);
  }
  threads_.reserve(kNumThreads);
  const std::lock_guard lock(mutex_);
  if (!pieces_.empty()) start_thread();
}

ReadingAhead::~ReadingAhead() { stop(); }

bool ReadingAhead::start_thread() {
  try {
    threads_.emplace_back([this] { read(); });
    return true;
  } catch (const std::exception&) {
    return false;  // tensors are then read by fewer threads, or when they are placed
  }
}

void ReadingAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  limit_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadingAhead::keep_ahead_of(std::size_t i) {
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t limit = ends_.at(i) + kAheadBytes;
    // Few large steps: each wakes a thread.
    const bool is_at_end = ends_.back() <= limit;
    if (limit < limit_ + kLimitStepBytes && !(is_at_end && limit_ < ends_.back())) return;
    limit_ = limit;
    if (!may_take_piece()) return;
  }
  limit_changed_.notify_one();
}

void ReadingAhead::wait() {
  std::unique_lock lock(mutex_);
  if (threads_.empty()) return;
  waits_.wait(lock, [this] { return !may_read() && num_reading_ == 0; });
}

void ReadingAhead::read() {
  std::unique_lock lock(mutex_);
  for (;;) {
    limit_changed_.wait(lock, [this] { return stops_ || may_take_piece(); });
    if (stops_) return;
    const std::span<const std::byte> piece = pieces_[next_++];
    position_ += std::ssize(piece);
    ++num_reading_;
    const bool was_cached = is_cached_;
    if (may_take_piece()) limit_changed_.notify_one();
    lock.unlock();
    const bool is_cached = (was_cached && is_probably_cached(piece)) || !populate_from_disk(piece);
    lock.lock();
    is_cached_ = is_cached;
    --num_reading_;
    const std::size_t num_wanted = std::min(kNumThreads, pieces_.size());
    while (!is_cached && !stops_ && threads_.size() < num_wanted) {
      if (!start_thread()) break;
    }
    if (may_take_piece()) limit_changed_.notify_one();
    if (!may_read()) waits_.notify_all();
  }
}

}  // namespace caption::model
