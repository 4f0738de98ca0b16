// video/internal/packet_reader.h: the packets of an indexed stream, from any keyframe on.
#pragma once

#include <cstdint>
#include <memory>

#include "video/internal/av.h"
#include "video/internal/frame_index.h"
#include "video/internal/input.h"

namespace caption::video {

// Every packet that comes back is checked against the index. Where seeking does not lead to the
// place the index names, the file is read anew from its start: slower, never wrong.
class PacketReader {
 public:
  // `input` stands behind its last packet, as build_frame_index leaves it. `index` must outlive the
  // reader.
  PacketReader(std::unique_ptr<Input> input, const FrameIndex& index);

  // Makes packets[first] the next one. Throws Error(kDecode) when the file has changed meanwhile,
  // and as Input.
  void go_to(std::int64_t first);

  // The next packet; its place in the index is the one asked for, plus one with every call.
  // Throws as go_to.
  void read(AVPacket& packet);

  Input& input() { return *input_; }

 private:
  bool try_seek(std::int64_t first);
  bool try_read(AVPacket& packet);
  void reopen();

  std::unique_ptr<Input> input_;
  const FrameIndex& index_;
  PacketPtr pending_;  // read while seeking, not yet given out; empty when size is 0
  std::int64_t next_;  // place in the index of the packet that read() gives
  bool can_seek_ = true;
};

}  // namespace caption::video
