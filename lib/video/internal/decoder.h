// video/internal/decoder.h: packets in, whole frames out.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "video/internal/av.h"
#include "video/internal/input.h"

namespace caption::video {

class Decoder {
 public:
  using OnFrame = std::function<void(AVFrame& frame)>;

  // What becomes of damage that libav would conceal without marking the frame. kReport: it is an
  // error, but so are faults of parameter sets and messages that harm no picture, and then the
  // frame is lost. kConceal: every frame that libav can make something of is shown.
  enum class Damage { kReport, kConceal };

  // The threads that a decoder of this codec uses where `num_threads` are offered.
  static int threads_for(AVCodecID codec, int num_threads);

  // For the video stream of `input`, of which it keeps nothing. Throws Error(kNoFrames) when this
  // libav has no decoder for the codec.
  Decoder(Input& input, int num_threads, Damage damage);

  // Hands one packet over; `on_frame` sees the frames that are ready, in presentation order and
  // possibly packets later. A frame that libav reports as damaged is counted, not shown.
  void send(const AVPacket& packet, const OnFrame& on_frame);

  // The remaining frames; then the decoder is ready for a packet anywhere else in the stream.
  void drain(const OnFrame& on_frame);

  // Whether frames that no other refers to may be left out, from the next packet on. Does nothing
  // for codecs where leaving them out could change another frame.
  enum class Unreferenced { kDecode, kSkip };
  void set_unreferenced(Unreferenced choice);

  // Decoding begins at the keyframe shown at `pts`: damaged frames shown before are leading
  // pictures of its group and dropped without being counted.
  void expect_damage_before(std::int64_t pts) { whole_from_pts_ = pts; }

  AVCodecID codec() const { return codec_->codec_id; }

  // Damaged packets and frames so far.
  std::int64_t num_errors() const { return num_errors_; }

 private:
  void receive(const OnFrame& on_frame);
  bool is_false_start(const AVFrame& frame) const;

  CodecPtr codec_;
  FramePtr frame_;
  std::int64_t num_errors_ = 0;
  std::int64_t whole_from_pts_ = std::numeric_limits<std::int64_t>::min();
};

// Presentation time of a frame in the stream's time base; AV_NOPTS_VALUE when none is known.
inline std::int64_t pts_of(const AVFrame& frame) {
  return frame.pts != AV_NOPTS_VALUE ? frame.pts : frame.best_effort_timestamp;
}

}  // namespace caption::video
