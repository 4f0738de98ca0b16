// model/internal/reading_ahead.h: threads that read tensors from the disk before they are placed.
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
// tensor that is being placed, and what remains of the pieces that begin before that. Does nothing
// where the system starts no thread.
//
// The threads wait in page faults (caption::populate_pages()), for which the system reads ahead in
// large pieces; MADV_WILLNEED reads single pages and took twice the time. One thread has too few
// requests under way for a fast disk: four read 2.1 GB/s where one read 0.7 to 1.0.
//
// Pieces that are in the page cache already are left to the threads that place them: without these
// threads, loading from the page cache took 1 to 16 % less. One thread looks for pieces that are
// not, by the waits of its own faults, since mincore() and cachestat() tell nothing about a file
// that it may not write; the other threads read as long as it finds such pieces.
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
  // Returns whether the system has started another thread; the mutex is locked.
  bool start_thread();
  void read();
  void stop();
  bool may_read() const { return next_ < pieces_.size() && position_ < limit_; }
  bool may_take_piece() const { return may_read() && (!is_cached_ || num_reading_ == 0); }

  std::vector<std::span<const std::byte>> pieces_;  // in the order of reading
  std::vector<std::int64_t> ends_;                  // where each tensor ends, in bytes of pieces_
  std::mutex mutex_;                                // guards the members below
  std::condition_variable limit_changed_;
  std::condition_variable waits_;  // the threads have read what they may
  std::int64_t limit_ = 0;         // a piece that begins before it may be read
  std::int64_t position_ = 0;      // bytes of the pieces before next_
  std::size_t next_ = 0;
  int num_reading_ = 0;    // threads that read a piece
  bool is_cached_ = true;  // whether the piece that was read last was in the page cache
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace caption::model
