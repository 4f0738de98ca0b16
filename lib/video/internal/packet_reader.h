// video/internal/packet_reader.h: reads the packets of an indexed stream from any keyframe on.
#pragma once

#include <cstdint>
#include <memory>

#include "video/internal/av.h"
#include "video/internal/frame_index.h"
#include "video/internal/input.h"

namespace caption::video {

// Every packet is compared with the index. When seeking does not lead to the place that the index
// gives, the file is read again from its start: slower, but correct.
class PacketReader {
 public:
  // `input` must be at its end, as build_frame_index() leaves it. `index` must outlive the reader.
  PacketReader(std::unique_ptr<Input> input, const FrameIndex& index);

  // Makes index.packets[first] the next packet. Throws Error(kDecode) when the file has changed
  // meanwhile, and as Input::read() and Input::seek().
  void go_to(std::int64_t first);

  // Reads the next packet of the index; every call advances by one. Throws as go_to().
  void read(AVPacket& packet);

  Input& input() { return *input_; }

 private:
  bool try_seek(std::int64_t first);
  bool try_read(AVPacket& packet);
  void reopen();

  std::unique_ptr<Input> input_;
  const FrameIndex& index_;
  PacketPtr pending_;  // packet read while seeking, not yet returned; empty when size is 0
  std::int64_t next_;  // index position of the next packet of read()
  bool can_seek_ = true;
};

}  // namespace caption::video
