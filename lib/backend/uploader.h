// backend/uploader.h: copies much memory of the host to a GPU: through two pinned chunks, on a
// stream of the uploader's own. The host fills one chunk while the other is copied. Kernels that
// read what has arrived run on the stream that the uploader serves.
//
//   std::byte* const bytes = uploader.take(size);   // pinned; fill it
//   uploader.copy_to(address);                      // to where it stays, or
//   work(stream, uploader.copy());                  // to a chunk on the GPU, which work reads
//   ...
//   uploader.finish();
//
// The host waits only for a chunk that it filled before the last one, not after each piece.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "backend/buffer.h"
#include "backend/event.h"
#include "backend/stream.h"

namespace caption {

// Used by one thread at a time. Functions throw Error(kUnavailable) when the GPU fails.
class Uploader {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

  // `stream`, of a GPU, is borrowed. Allocates two chunks on the host and two on the GPU. Throws
  // Error(kOutOfMemory).
  explicit Uploader(Stream& stream, std::size_t chunk_bytes = kChunkBytes);
  // Waits for the copies.
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  std::size_t chunk_bytes() const { return chunk_bytes_; }

  // Returns pinned memory, aligned to 256 bytes, for the host to fill before the next call. Throws
  // Error(kInternal) for more than a chunk.
  std::byte* take(std::size_t size_bytes);
  // Copies what was filled to memory of the GPU, which no other work writes or reads before
  // finish().
  void copy_to(std::byte* to);
  // Copies what was filled to the GPU; returns where work that the stream is given before the next
  // take() may read it.
  const std::byte* copy();
  // Returns when all copies, and all work of the stream, are done.
  void finish();

 private:
  struct Chunk {
    Buffer on_host;  // pinned
    Buffer on_device;
    std::optional<Event> copied;  // the last copy of its bytes on the host
    std::optional<Event> read;    // the last work that reads its bytes on the device
  };

  Chunk& chunk() { return chunks_[current_]; }
  void next_chunk();
  void copy_taken(std::byte* to);

  Stream& stream_;
  std::size_t chunk_bytes_;
  std::array<Chunk, 2> chunks_;
  Stream copies_;
  std::size_t current_ = 0;
  std::size_t used_bytes_ = 0;  // bytes of the current chunk that were taken
  std::size_t taken_begin_ = 0;
  std::size_t taken_bytes_ = 0;
};

}  // namespace caption
