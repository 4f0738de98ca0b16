// video/internal/decoder.h: packets in, whole frames out.
#pragma once

#include <atomic>
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

  // The threads that a decoder of this codec uses where `num_threads` are offered.
  static int threads_for(AVCodecID codec, int num_threads);

  // For the video stream of `input`, of which it keeps nothing. Throws Error(kNoFrames) when this
  // libav has no decoder for the codec, and Error(kOutOfMemory), as send() and drain() do, when
  // there is not enough memory or no thread can be started.
  Decoder(Input& input, int num_threads);

  // Hands one packet over; `on_frame` sees the frames that are ready, in presentation order and
  // possibly packets later. A frame that libav reports as damaged is counted, not shown.
  void send(const AVPacket& packet, const OnFrame& on_frame);

  // The remaining frames; then the decoder is ready for a packet anywhere else in the stream.
  void drain(const OnFrame& on_frame);

  // Whether frames that no other refers to may be left out, from the next packet on. Does nothing
  // for codecs where leaving them out could change another frame.
  enum class Unreferenced { kDecode, kSkip };
  void set_unreferenced(Unreferenced choice);

  // Damaged frames shown before `pts` are dropped without being counted: leading pictures of the
  // group where decoding began.
  void expect_damage_before(std::int64_t pts) { whole_from_pts_ = pts; }

  AVCodecID codec() const { return codec_->codec_id; }

  // Damaged packets and frames so far.
  std::int64_t num_errors() const { return num_errors_; }

 private:
  void receive(const OnFrame& on_frame);
  // Throws Error(kOutOfMemory) when `status`, which libav returned, or an allocation of a picture
  // says so.
  void check_memory(int status) const;

  std::string name_;  // of the file, for messages
  // Whether libav could not allocate a picture: its decoders conceal that as they conceal damage.
  // Set by the decoder's threads, which end before it does.
  std::atomic<bool> lacks_memory_ = false;
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
