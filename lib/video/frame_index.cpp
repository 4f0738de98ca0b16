#include "video/internal/frame_index.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption::video {
namespace {

// 92 hours at 60 frames a second; a file with more packets is taken for an attack on memory.
constexpr std::size_t kMaxPackets = 20'000'000;
// An MPEG-4 frame that only repeats the previous one ("not coded") is a start code and at most 4
// bytes of header; the decoder returns no frame for it.
constexpr int kMaxUncodedMpeg4Bytes = 8;

// Codecs whose packets hold one frame each when the picture is progressive. For other codecs (GIF
// with partial pictures, codecs that were not examined) frames are counted by decoding.
bool gives_one_frame_per_packet(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_FFV1:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_PRORES:
    case AV_CODEC_ID_DNXHD:
    case AV_CODEC_ID_HUFFYUV:
    case AV_CODEC_ID_FFVHUFF:
    case AV_CODEC_ID_RAWVIDEO: return true;
    default: return false;
  }
}

// Whether the decoder returns no frame for this packet, judged by its first bytes or its size.
bool is_invisible(AVCodecID codec, const AVPacket& packet) {
  switch (codec) {
    case AV_CODEC_ID_VP8: return (packet.data[0] & 0x10) == 0;  // RFC 6386 §9.1, show_frame
    case AV_CODEC_ID_MPEG4: return packet.size <= kMaxUncodedMpeg4Bytes;
    default: return false;
  }
}

bool is_encrypted(const AVPacket& packet) {
  return av_packet_get_side_data(&packet, AV_PKT_DATA_ENCRYPTION_INFO, nullptr) != nullptr;
}

// Whether the packet carries a palette or other settings that the decoder needs from here on.
// Demuxers attach them once, not again after a seek.
bool changes_decoder(const AVPacket& packet, const AVCodecParameters& parameters) {
  const auto has = [&packet](AVPacketSideDataType type) {
    return av_packet_get_side_data(&packet, type, nullptr) != nullptr;
  };
  if (has(AV_PKT_DATA_PALETTE) || has(AV_PKT_DATA_PARAM_CHANGE)) return true;
  std::size_t size = 0;
  const std::uint8_t* const header =
      av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size);
  if (header == nullptr) return false;
  const bool is_known = std::cmp_equal(size, parameters.extradata_size) &&
                        std::equal(header, header + size, parameters.extradata);
  return !is_known;
}

bool is_progressive(const AVCodecParameters& parameters) {
  switch (parameters.codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG2VIDEO:
      return parameters.field_order == AV_FIELD_PROGRESSIVE ||
             parameters.field_order == AV_FIELD_UNKNOWN;
    default: return true;
  }
}

// Whether the file gives the times of decoding as those of presentation although the decoder puts
// frames into another order, as H.264 in MXF may have and MPEG-4 that was copied from AVI to MP4.
bool has_times_of_decoding(const FrameIndex& index, const AVCodecParameters& parameters) {
  if (parameters.video_delay <= 0) return false;
  const auto is_keyframe = [](const PacketEntry& entry) { return entry.is_keyframe; };
  const auto is_equal = [](const PacketEntry& entry) { return entry.pts == entry.dts; };
  return std::all_of(index.packets.begin(), index.packets.end(), is_equal) &&
         !std::all_of(index.packets.begin(), index.packets.end(), is_keyframe);
}

// Whether the decoding times jump back somewhere (joined MPEG-TS files): sorting by time would then
// mix the frames of both parts.
bool restarts(const FrameIndex& index, const AVInputFormat& format) {
  if ((format.flags & AVFMT_TS_DISCONT) == 0) return false;
  const auto goes_back = [](const PacketEntry& a, const PacketEntry& b) {
    return a.dts != AV_NOPTS_VALUE && b.dts != AV_NOPTS_VALUE && b.dts < a.dts;
  };
  return std::adjacent_find(index.packets.begin(), index.packets.end(), goes_back) !=
         index.packets.end();
}

// The presentation time, or the decoding time where there is none: AVI stores decoding times only.
std::int64_t time_of(std::int64_t pts, std::int64_t dts) {
  return pts != AV_NOPTS_VALUE ? pts : dts;
}

// The longest time between two consecutive frames, in the stream's time base.
std::int64_t longest_gap(const std::vector<PacketEntry>& packets) {
  std::vector<std::int64_t> times;
  times.reserve(packets.size());
  for (const PacketEntry& entry : packets) {
    const std::int64_t time = time_of(entry.pts, entry.dts);
    if (time != AV_NOPTS_VALUE) times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  std::int64_t gap = 0;
  for (std::size_t i = 1; i < times.size(); ++i)
    gap = std::max(gap, av_sat_sub64(times[i], times[i - 1]));
  return gap;
}

// Declared length of the stream minus the end of its last packet, in microseconds. Differences up
// to half a second (rounding), or up to the longest gap between frames (a last packet without a
// duration), count as 0.
std::int64_t find_missing_us(const Input& input, const std::vector<PacketEntry>& packets,
                             std::int64_t begin_time, std::int64_t end_time) {
  constexpr std::int64_t kRoundingUs = 500'000;
  const auto to_us = [&](std::int64_t ticks) {
    return av_rescale_q(ticks, input.stream().time_base, {1, 1'000'000});
  };
  const std::int64_t declared_us = input.declared_length_us();
  if (declared_us <= 0) return 0;
  // Some formats count the length from time 0, others from the first frame.
  const std::int64_t reach = std::max(end_time, av_sat_sub64(end_time, begin_time));
  const std::int64_t missing_us = av_sat_sub64(declared_us, to_us(reach));
  if (missing_us <= kRoundingUs) return 0;
  return missing_us <= to_us(longest_gap(packets)) ? 0 : missing_us;
}

// What was seen in the packets of a stream that is not in the index.
struct Seen {
  bool invisible = false;        // a packet without a picture
  bool decoder_changed = false;  // a packet with settings of the decoder
};

std::string find_untrusted_reason(const FrameIndex& index, Input& input, const Seen& seen) {
  const AVCodecParameters& parameters = input.codec_parameters();
  if (!gives_one_frame_per_packet(parameters.codec_id)) {
    return std::string("codec ") + avcodec_get_name(parameters.codec_id);
  }
  if (!is_progressive(parameters)) return "interlaced";
  if (seen.invisible) return "packets without a picture";
  if (seen.decoder_changed) return "packets with a palette or a header";
  if (index.packets.empty() || !index.packets.front().is_keyframe)
    return "no keyframe at the start";
  const auto has_no_pts = [](const PacketEntry& entry) { return entry.pts == AV_NOPTS_VALUE; };
  if (std::any_of(index.packets.begin(), index.packets.end(), has_no_pts)) {
    return "packets without presentation time";
  }
  if (has_times_of_decoding(index, parameters)) return "times of decoding";
  if (restarts(index, *input.format().iformat)) return "times that start anew";
  return {};
}

void sort_by_pts(FrameIndex& index) {
  const auto pts_of = [&](std::int64_t idx) {
    return index.packets[static_cast<std::size_t>(idx)].pts;
  };
  index.by_pts.resize(index.packets.size());
  std::iota(index.by_pts.begin(), index.by_pts.end(), std::int64_t{0});
  std::stable_sort(index.by_pts.begin(), index.by_pts.end(),
                   [&](std::int64_t a, std::int64_t b) { return pts_of(a) < pts_of(b); });
  for (const std::int64_t idx : index.by_pts) {
    if (index.packets[static_cast<std::size_t>(idx)].is_shown) index.shown.push_back(idx);
  }
  for (std::size_t i = 1; i < index.shown.size(); ++i) {
    if (pts_of(index.shown[i - 1]) == pts_of(index.shown[i])) {
      index.untrusted_reason = "two frames at one time";
      return;
    }
  }
  for (std::size_t i = 0, group = 0; i < index.packets.size(); ++i) {
    if (group + 1 < index.keyframes.size() && std::cmp_equal(i, index.keyframes[group + 1]))
      ++group;
    if (index.packets[i].pts >= pts_of(index.keyframes[group])) continue;
    index.has_leading_pictures = true;
    // Leading pictures of the first group refer to frames that are not in the file; the decoder may
    // drop them.
    if (group == 0) index.untrusted_reason = "leading pictures at the start";
  }
}

}  // namespace

std::int64_t FrameIndex::num_shown() const {
  return std::count_if(packets.begin(), packets.end(),
                       [](const PacketEntry& entry) { return entry.is_shown; });
}

std::int64_t FrameIndex::num_shown_keyframes() const {
  return std::count_if(packets.begin(), packets.end(), [](const PacketEntry& entry) {
    return entry.is_shown && entry.is_keyframe;
  });
}

std::optional<std::int64_t> FrameIndex::find(const AVPacket& packet) const {
  const auto pts_of = [this](std::int64_t idx) {
    return packets[static_cast<std::size_t>(idx)].pts;
  };
  auto it = std::lower_bound(by_pts.begin(), by_pts.end(), packet.pts,
                             [&](std::int64_t idx, std::int64_t pts) { return pts_of(idx) < pts; });
  for (; it != by_pts.end() && pts_of(*it) == packet.pts; ++it) {
    const PacketEntry& entry = packets[static_cast<std::size_t>(*it)];
    const bool same_place =
        entry.position_bytes < 0 || packet.pos < 0 || entry.position_bytes == packet.pos;
    if (entry.size_bytes == packet.size && same_place) return *it;
  }
  return std::nullopt;
}

std::int64_t FrameIndex::decode_start(std::int64_t idx) const {
  auto it = std::upper_bound(keyframes.begin(), keyframes.end(), idx);
  CAPTION_CHECK(it != keyframes.begin(), "a trusted index starts with a keyframe");
  --it;
  const bool is_leading =
      packets[static_cast<std::size_t>(idx)].pts < packets[static_cast<std::size_t>(*it)].pts;
  if (is_leading && it != keyframes.begin()) --it;
  return *it;
}

FrameIndex build_frame_index(Input& input) {
  FrameIndex index;
  const AVCodecParameters& parameters = input.codec_parameters();
  const bool has_durations = (input.format().iformat->flags & AVFMT_TS_DISCONT) == 0;
  const PacketPtr packet = make_packet();
  Seen seen;
  std::int64_t last_pts = AV_NOPTS_VALUE;
  std::int64_t begin_time = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_time = std::numeric_limits<std::int64_t>::min();
  while (input.read(*packet)) {
    if (index.packets.size() == kMaxPackets) {
      throw Error(ErrorCode::kTooLarge,
                  input.name() + ": more than " + std::to_string(kMaxPackets) + " frames");
    }
    PacketEntry entry{.pts = packet->pts,
                      .dts = packet->dts,
                      .position_bytes = packet->pos,
                      .size_bytes = packet->size,
                      .is_keyframe = (packet->flags & AV_PKT_FLAG_KEY) != 0,
                      .is_shown = (packet->flags & AV_PKT_FLAG_DISCARD) == 0};
    index.is_cut_off = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    seen.invisible = seen.invisible || is_invisible(parameters.codec_id, *packet);
    seen.decoder_changed = seen.decoder_changed || changes_decoder(*packet, parameters);
    index.is_encrypted = index.is_encrypted || is_encrypted(*packet);
    if (entry.is_keyframe) index.keyframes.push_back(std::ssize(index.packets));
    if (entry.is_shown && (last_pts == AV_NOPTS_VALUE || packet->pts >= last_pts)) {
      last_pts = packet->pts;
      index.last_duration = has_durations ? packet->duration : 0;
    }
    if (const std::int64_t time = time_of(packet->pts, packet->dts); time != AV_NOPTS_VALUE) {
      begin_time = std::min(begin_time, time);
      end_time =
          std::max(end_time, av_sat_add64(time, std::max<std::int64_t>(packet->duration, 0)));
    }
    index.packets.push_back(entry);
    av_packet_unref(packet.get());
  }
  if (index.is_cut_off && index.packets.size() > 1) {
    if (index.packets.back().is_keyframe) index.keyframes.pop_back();
    index.packets.pop_back();
  }
  if (end_time >= begin_time) {
    index.missing_us = find_missing_us(input, index.packets, begin_time, end_time);
  }
  index.untrusted_reason = find_untrusted_reason(index, input, seen);
  if (index.is_trusted()) sort_by_pts(index);
  return index;
}

}  // namespace caption::video
