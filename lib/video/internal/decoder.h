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

  // What becomes of damage that libav would conceal without marking the frame. kReport: it is an
  // error, but so are faults of parameter sets and messages that harm no picture, and then the
  // frame is lost. kConceal: every frame that libav can make something of is shown.
  enum class Damage { kReport, kConceal };

  // The threads that a decoder of this codec uses where `num_threads` are offered.
  static int threads_for(AVCodecID codec, int num_threads);

  // For the video stream of `input`, of which it keeps nothing. Throws Error(kNoFrames) when this
  // libav has no decoder for the codec, and Error(kOutOfMemory), as send() and drain() do, when
  // there is not enough memory or no thread can be started.
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
  // Throws Error(kOutOfMemory) when `status`, which libav returned, or an allocation of a picture
  // says so.
  void check_memory(int status) const;
  [[noreturn]] void fail_for_memory() const;
  // Calls libav and notes whether an allocation failed on this thread.
  template <class Call>
  int watched(Call&& call);
  // Counts damage. Throws Error(kOutOfMemory) where an allocation has failed before, which decoders
  // pass over and then take for damage of the stream.
  void count_error();
  bool is_false_start(const AVFrame& frame) const;

  // What the decoder's threads, which end before it does, share with it.
  struct PictureMemory {
    bool must_be_blank = false;
    // Whether libav could not allocate a picture: its decoders conceal that as they conceal damage.
    std::atomic<bool> is_lacking = false;
  };
  static int get_picture_memory(AVCodecContext* codec, AVFrame* frame, int flags);

  std::string name_;  // of the file, for messages
  PictureMemory picture_memory_;
  CodecPtr codec_;
  FramePtr frame_;
  std::int64_t num_errors_ = 0;
  bool has_seen_enomem_ = false;
  std::int64_t whole_from_pts_ = std::numeric_limits<std::int64_t>::min();
};

// Presentation time of a frame in the stream's time base; AV_NOPTS_VALUE when none is known.
inline std::int64_t pts_of(const AVFrame& frame) {
  return frame.pts != AV_NOPTS_VALUE ? frame.pts : frame.best_effort_timestamp;
}

}  // namespace caption::video
