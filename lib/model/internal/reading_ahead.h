// model/internal/reading_ahead.h: a thread that reads tensors from the disk before they are placed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace caption::model {

// Reads the bytes of tensors, parts of mapped files, in the order in which the tensors are placed,
// so that the disk is busy while other threads compute. At most kAheadBytes are read beyond the
// tensor that is being placed. Does nothing where the system starts no thread.
//
// The thread waits in page faults (caption::populate_pages()), for which the system reads ahead in
// large pieces; MADV_WILLNEED reads single pages and took twice the time.
class ReadingAhead {
 public:
  static constexpr std::int64_t kAheadBytes = std::int64_t{64} << 20;

  // tensors[i]: where the bytes of tensor i are mapped. They must stay mapped as long as the object
  // lives.
  explicit ReadingAhead(const std::vector<std::vector<std::span<const std::byte>>>& tensors);
  ~ReadingAhead();
  ReadingAhead(const ReadingAhead&) = delete;
  ReadingAhead& operator=(const ReadingAhead&) = delete;

  // Call it before tensor i is placed; threads may call it in another order than that of the
  // tensors. Does not wait. Thread-safe.
  void keep_ahead_of(std::size_t i);
  // Waits until all bytes that may be read by now are read.
  void wait();

 private:
  void read();
  bool may_read() const { return next_ < pieces_.size() && position_ < limit_; }

  std::vector<std::span<const std::byte>> pieces_;  // in the order of reading
  std::vector<std::int64_t> ends_;                  // where each tensor ends, in bytes of pieces_
  std::mutex mutex_;                                // guards the members below
  std::condition_variable limit_changed_;
  std::condition_variable waits_;  // the thread has read what it may
  std::int64_t limit_ = 0;         // a piece that begins before it may be read
  std::int64_t position_ = 0;      // bytes of the pieces before next_
  std::size_t next_ = 0;
  bool is_reading_ = false;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace caption::model
