// video/internal/decoder.h: decodes packets of a video stream into undamaged frames.
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

  // Treatment of damage that libav would conceal without marking the frame. kReport: it is an
  // error; harmless faults of parameter sets and messages are then errors too, and cost the frame.
  // kConceal: every frame that libav can reconstruct is returned.
  enum class Damage { kReport, kConceal };

  // Number of threads that a decoder of this codec uses when `num_threads` are available.
  static int threads_for(AVCodecID codec, int num_threads);

  // Opens a decoder for the video stream of `input`, which need not outlive it. Throws
  // Error(kNoFrames) when this libav has no decoder for the codec or it cannot be opened, and, as
  // send() and drain() do, Error(kOutOfMemory) when there is not enough memory or no thread can be
  // started.
  Decoder(Input& input, int num_threads, Damage damage);

  // Decodes one packet. `on_frame` is called for each finished frame, in presentation order; a
  // frame may be finished several packets later. A frame that libav reports as damaged is counted
  // and not passed on.
  void send(const AVPacket& packet, const OnFrame& on_frame);

  // Passes on the remaining frames; afterwards the decoder accepts a packet from any place in the
  // stream.
  void drain(const OnFrame& on_frame);

  // Sets whether frames to which no other frame refers are skipped, from the next packet on. No
  // effect for codecs where skipping them could change another frame.
  enum class Unreferenced { kDecode, kSkip };
  void set_unreferenced(Unreferenced choice);

  // Announces that decoding begins at the keyframe with presentation time `pts`: damaged frames
  // before it are leading pictures of its group; they are dropped and not counted.
  void expect_damage_before(std::int64_t pts) { whole_from_pts_ = pts; }

  AVCodecID codec() const { return codec_->codec_id; }

  // Number of damaged packets and frames so far.
  std::int64_t num_errors() const { return num_errors_; }

 private:
  void receive(const OnFrame& on_frame);
  // Throws Error(kOutOfMemory) when libav returned `status` == AVERROR(ENOMEM), or when an
  // allocation has failed in this call or an earlier one.
  void check_memory(int status) const;
  [[noreturn]] void fail_for_memory() const;
  // Calls libav and notes whether an allocation failed on this thread.
  template <class Call>
  int watched(Call&& call);
  bool is_false_start(const AVFrame& frame) const;

  // State shared with the decoder's threads, which end before the Decoder does.
  struct PictureMemory {
    bool must_be_blank = false;
    // True after a failed allocation of a picture, which libav's decoders conceal as they conceal
    // damage.
    std::atomic<bool> is_lacking = false;
  };
  static int get_picture_memory(AVCodecContext* codec, AVFrame* frame, int flags);

  std::string name_;  // name of the file, for messages
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
