// model/internal/placing_threads.h: threads that place tensors side by side.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/buffer_arena.h"
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "backend/uploader.h"

namespace caption::model {

// Each thread of a stream's pool places a tensor by itself, so that the threads wait for each other
// once at the end and not after each tensor: a large model has hundreds, and placing one takes
// about a millisecond. Tensors that take much time or memory are for all threads together: the
// caller places them between two calls of place_side_by_side().
//
// What is placed on the CPU lies in chunks of memory together (BufferArena), of each thread its
// own. What is placed on a GPU is uploaded while the next tensors are read (Uploader).
class PlacingThreads {
 public:
  using Place = std::function<void(Stream& stream, std::size_t tensor)>;

  // `stream` is borrowed. On other devices than the CPU the calling thread places all tensors.
  explicit PlacingThreads(Stream& stream);
  ~PlacingThreads();
  PlacingThreads(const PlacingThreads&) = delete;
  PlacingThreads& operator=(const PlacingThreads&) = delete;

  // Calls place(stream, i) for the tensors [begin, end), on the threads side by side, each with a
  // stream of its own. Threads take the tensors in order. After an exception of `place` no further
  // tensor is taken, and the exception of the first tensor that failed is rethrown: which it is
  // does not depend on how fast the threads were.
  void place_side_by_side(std::size_t begin, std::size_t end, const Place& place);

  // Waits until all that was placed is complete.
  void finish();

 private:
  class Worker;

  Stream& stream_;
  BufferArena arena_;
  std::optional<Uploader> uploader_;  // empty on the CPU and the mirror
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace caption::model
