// video/internal/frame_index.h: maps packets to frames without decoding.
//
// One pass over the packets finds every frame's presentation time and every keyframe. The sampled
// frames are therefore known before anything is decoded, and only the groups of pictures that
// contain them have to be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "video/internal/av.h"
#include "video/internal/input.h"

namespace caption::video {

struct PacketEntry {
  std::int64_t pts = AV_NOPTS_VALUE;  // in the stream's time base, as is dts
  std::int64_t dts = AV_NOPTS_VALUE;
  std::int64_t position_bytes = -1;
  int size_bytes = 0;
  bool is_keyframe = false;
  bool is_shown = true;  // false: an edit list hides this frame
};

struct FrameIndex {
  // In decoding order; a last packet that is cut off is left out unless it is the only one.
  std::vector<PacketEntry> packets;
  std::vector<std::int64_t> by_pts;  // positions in `packets`, sorted by pts, hidden ones included
  std::vector<std::int64_t> shown;  // `by_pts` without hidden packets: frame t is packets[shown[t]]
  std::vector<std::int64_t> keyframes;  // positions in `packets`, ascending
  bool has_leading_pictures = false;    // some frames precede their keyframe in presentation order
  bool is_cut_off = false;              // the file ends inside its last packet
  bool is_encrypted = false;            // some packet is encrypted (ISO/IEC 23001-7)
  // The last frame's, in the stream's time base; 0 where the container stores no durations.
  std::int64_t last_duration = 0;
  // Declared length of the stream minus the time that its packets cover, in microseconds; 0 when
  // they cover it or the container declares no length.
  std::int64_t missing_us = 0;

  // Why a packet of this stream does not correspond to one frame at its time (interlaced fields, no
  // presentation times, ...), or cannot be decoded after a seek; empty when it does and can.
  // `by_pts`, `shown`, find() and decode_start() are valid only when it is empty.
  std::string untrusted_reason;
  bool is_trusted() const { return untrusted_reason.empty(); }

  std::int64_t num_shown() const;
  std::int64_t num_shown_keyframes() const;

  // Position in `packets` of a packet that was read again after a seek; std::nullopt when the index
  // does not contain it.
  std::optional<std::int64_t> find(const AVPacket& packet) const;

  // Position of the packet at which decoding must start so that packet `idx` is decoded correctly:
  // the keyframe of its group of pictures, or the previous keyframe for a leading picture of an
  // open group.
  std::int64_t decode_start(std::int64_t idx) const;
};

// Reads all packets of a newly opened file. Throws Error(kTooLarge), and as Input::read().
FrameIndex build_frame_index(Input& input);

}  // namespace caption::video
