#include "model/internal/reading_ahead.h"

#include <algorithm>
#include <system_error>

#include "base/mapped_file.h"

namespace caption::model {
namespace {

// Read at a time: long beside the cost of a call, short beside the time in which others may wait
// for the process's list of mappings.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

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
  if (pieces_.empty()) return;
  try {
    thread_ = std::thread([this] { read(); });
  } catch (const std::system_error&) {
    // Tensors are then read when they are placed.
  }
}

ReadingAhead::~ReadingAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  limit_changed_.notify_one();
  thread_.join();
}

void ReadingAhead::keep_ahead_of(std::size_t i) {
  {
    const std::lock_guard lock(mutex_);
    limit_ = std::max(limit_, ends_.at(i) + kAheadBytes);
  }
  limit_changed_.notify_one();
}

void ReadingAhead::wait() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  waits_.wait(lock, [this] { return !may_read() && !is_reading_; });
}

void ReadingAhead::read() {
  std::unique_lock lock(mutex_);
  for (;;) {
    limit_changed_.wait(lock, [this] { return stops_ || may_read(); });
    if (stops_) return;
    const std::span<const std::byte> piece = pieces_[next_++];
    position_ += std::ssize(piece);
    is_reading_ = true;
    lock.unlock();
    populate_pages(piece);
    lock.lock();
    is_reading_ = false;
    waits_.notify_all();
  }
}

}  // namespace caption::model
