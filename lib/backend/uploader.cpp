#include "backend/uploader.h"

#include "backend/device_runtime.h"
#include "base/error.h"

namespace caption {
namespace {

constexpr std::size_t kAlignmentBytes = 256;  // CUDA aligns what it allocates to as much

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

}  // namespace

Uploader::Uploader(Stream& stream, std::size_t chunk_bytes)
    : stream_(stream),
      chunk_bytes_(aligned(chunk_bytes)),
      copies_(stream.context(), stream.pool()) {
  for (Chunk& chunk : chunks_) {
    chunk.on_host = Buffer::staging(stream.device(), chunk_bytes_);
    chunk.on_device = Buffer(stream.device(), chunk_bytes_);
  }
}

// The queue of copies_ waits for them when it is destroyed, before the pinned chunks are freed.
// Freeing memory of the GPU waits for all work of the GPU (cudaFree()).
Uploader::~Uploader() = default;

std::byte* Uploader::take(std::size_t size_bytes) {
  CAPTION_CHECK(size_bytes <= chunk_bytes_, "uploader: a piece larger than a chunk");
  if (used_bytes_ + size_bytes > chunk_bytes_) next_chunk();
  taken_begin_ = used_bytes_;
  taken_bytes_ = size_bytes;
  used_bytes_ += aligned(size_bytes);
  return chunk().on_host.begin() + taken_begin_;
}

// Ends the current chunk, and begins the other when the host may fill it.
void Uploader::next_chunk() {
  chunk().copied = copies_.record();
  chunk().read = stream_.record();
  current_ = 1 - current_;
  used_bytes_ = 0;
  if (chunk().copied.has_value()) chunk().copied->synchronize();
  if (chunk().read.has_value()) copies_.wait(*chunk().read);
}

void Uploader::copy_taken(std::byte* to) {
  if (taken_bytes_ == 0) return;
  require_device_runtime(stream_.device())
      .copy(copies_.queue(), {.to = to,
                              .from = chunk().on_host.begin() + taken_begin_,
                              .row_bytes = taken_bytes_,
                              .num_rows = 1});
}

void Uploader::copy_to(std::byte* to) { copy_taken(to); }

const std::byte* Uploader::copy() {
  std::byte* const to = chunk().on_device.begin() + taken_begin_;
  copy_taken(to);
  stream_.wait(copies_.record());
  return to;
}

void Uploader::finish() {
  copies_.synchronize();
  stream_.synchronize();
}

}  // namespace caption
