#include "video/internal/packet_reader.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace caption::video {
namespace {

// Reading up to this many packets ahead is cheaper than a seek.
constexpr std::int64_t kReadOnPackets = 32;
// After a seek by byte position, reading of an MPEG stream may begin inside a packet.
constexpr int kMaxUnknownPackets = 16;

}  // namespace

PacketReader::PacketReader(std::unique_ptr<Input> input, const FrameIndex& index)
    : input_(std::move(input)),
      index_(index),
      pending_(make_packet()),
      next_(std::ssize(index.packets)) {}

void PacketReader::go_to(std::int64_t first) {
  const bool is_near = first >= next_ && first <= next_ + kReadOnPackets;
  if (!is_near) {
    if (can_seek_ && !try_seek(first)) {
      can_seek_ = false;
      reopen();
    }
    if (!can_seek_ && first < next_) reopen();
  }
  const PacketPtr skipped = make_packet();
  while (next_ < first) {
    read(*skipped);
    av_packet_unref(skipped.get());
  }
}

void PacketReader::read(AVPacket& packet) {
  if (try_read(packet)) return;
  const std::int64_t wanted = next_;
  if (can_seek_) {
    can_seek_ = false;
    reopen();
    bool is_there = true;
    while (is_there && next_ < wanted) {
      is_there = try_read(packet);
      av_packet_unref(&packet);
    }
    if (is_there && try_read(packet)) return;
  }
  throw Error(ErrorCode::kDecode, input_->name() + ": packet " + std::to_string(wanted) +
                                      " is not the one read before; has the file changed?");
}

// Reads the packet index_.packets[next_]; false when the file yields a different packet.
bool PacketReader::try_read(AVPacket& packet) {
  if (pending_->size > 0) {
    av_packet_move_ref(&packet, pending_.get());
  } else if (!input_->read(packet)) {
    return false;
  }
  const PacketEntry& entry = index_.packets[static_cast<std::size_t>(next_)];
  if (packet.pts != entry.pts || packet.size != entry.size_bytes) {
    av_packet_unref(&packet);
    return false;
  }
  ++next_;
  return true;
}

// Seeks to packets[first] or before it, and determines the position that was reached.
bool PacketReader::try_seek(std::int64_t first) {
  const PacketEntry& entry = index_.packets[static_cast<std::size_t>(first)];
  av_packet_unref(pending_.get());
  if (!input_->seek(entry.pts, entry.dts, entry.position_bytes)) return false;
  for (int i = 0; i < kMaxUnknownPackets; ++i) {
    if (!input_->read(*pending_)) return false;
    const std::optional<std::int64_t> idx = index_.find(*pending_);
    if (idx.has_value() && *idx <= first) {
      next_ = *idx;
      return true;
    }
    av_packet_unref(pending_.get());
    if (idx.has_value()) return false;  // the seek went too far
  }
  return false;
}

void PacketReader::reopen() {
  const OpenFile& file = input_->file();
  const OpenLimits limits = input_->limits();
  const StopCondition& stop = input_->stop();
  av_packet_unref(pending_.get());
  input_ = nullptr;  // releases its memory before the next Input allocates
  input_ = std::make_unique<Input>(file, limits, stop);
  next_ = 0;
}

}  // namespace caption::video
