// video/internal/frame_index.h: which packet holds which frame, found without decoding.
//
// One pass over the packets gives every frame's presentation time and every keyframe, so that the
// sampled frames are known before the first is decoded and only the groups of pictures that hold
// them need visiting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "video/internal/av.h"
#include "video/internal/input.h"

namespace caption::video {

struct PacketEntry {
  std::int64_t pts = AV_NOPTS_VALUE;  // stream time base
  std::int64_t dts = AV_NOPTS_VALUE;
  std::int64_t position_bytes = -1;
  int size_bytes = 0;
  bool is_keyframe = false;
  bool is_shown = true;  // false: an edit list cuts this frame
};

struct FrameIndex {
  std::vector<PacketEntry> packets;  // in decoding order; a cut-off last packet is left out
  std::vector<std::int64_t> by_pts;  // positions in `packets` sorted by pts, hidden ones included
  std::vector<std::int64_t> shown;   // the same without the hidden: frame t is packets[shown[t]]
  std::vector<std::int64_t> keyframes;  // positions in `packets`, ascending
  bool has_leading_pictures = false;    // groups are open: frames shown before their keyframe
  bool is_cut_off = false;              // the file ends inside its last packet
  std::int64_t last_duration = 0;       // of the last frame, stream time base; 0 when unknown
  // The declared length of the stream less the time that its packets reach, in microseconds; 0
  // where they reach it or the container declares none.
  std::int64_t missing_us = 0;

  // Why one packet cannot be taken for one frame in this stream (interlaced fields, no presentation
  // times, ...); empty when it can. Only then `by_pts`, `shown` and seeking mean anything.
  std::string distrust;
  bool is_trusted() const { return distrust.empty(); }

  std::int64_t num_shown() const;
  std::int64_t num_shown_keyframes() const;

  // The position of a packet that was read again after a seek; std::nullopt when it is new.
  std::optional<std::int64_t> find(const AVPacket& packet) const;

  // Where decoding has to start so that packet `idx` comes out right: the keyframe of its group
  // of pictures, or the one before for a leading picture of an open group.
  std::int64_t decode_start(std::int64_t idx) const;
};

// Reads all packets of a freshly opened file. Throws Error(kTimeout | kCancelled | kTooLarge).
FrameIndex build_frame_index(Input& input);

}  // namespace caption::video
