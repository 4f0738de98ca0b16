#include "video/internal/decoder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace caption::video {
namespace {

// After this many consecutive errors receive() stops asking a decoder that neither returns a frame
// nor asks for a packet.
constexpr int kMaxErrorsInARow = 64;

// H.264 (nal_ref_idc = 0) and MPEG-1/2 (B pictures) mark frames to which no other frame refers.
// HEVC's mark refers to one temporal layer only, and VP8's skipped frames still carry decoder
// state.
bool marks_unreferenced(AVCodecID codec) {
  return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_MPEG1VIDEO ||
         codec == AV_CODEC_ID_MPEG2VIDEO;
}

// Decoders that would return timing-dependent frames of a damaged stream if they used frame
// threads: those that conceal damage may return a frame before they mark it as damaged, and those
// of VP8 and FFV1 leave the damaged part unwritten and do not mark the frame.
bool needs_one_thread(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_PRORES:
    case AV_CODEC_ID_DNXHD: return false;
    default: return true;
  }
}

// The errors that libav shall report instead of concealing them (AV_EF_*).
int reported_errors(AVCodecID codec, Decoder::Damage damage) {
  switch (codec) {
    // Otherwise a damaged slice is filled from the previously decoded frame, without any mark.
    case AV_CODEC_ID_FFV1: return AV_EF_EXPLODE;
    // Otherwise a picture that lacks slices is returned unmarked and shows the previous content of
    // its memory.
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MJPEG: return damage == Decoder::Damage::kReport ? AV_EF_EXPLODE : 0;
    default: return 0;
  }
}

// Decoders that return incompletely written pictures of a damaged stream and do not report it,
// whatever err_recognition asks for.
bool leaves_pictures_unfinished(AVCodecID codec) {
  return codec == AV_CODEC_ID_VP8 || codec == AV_CODEC_ID_FFV1;
}

bool is_keyframe(const AVFrame& frame) {
#ifdef AV_FRAME_FLAG_KEY
  return (frame.flags & AV_FRAME_FLAG_KEY) != 0;
#else
  return frame.key_frame != 0;
#endif
}

}  // namespace

int Decoder::threads_for(AVCodecID codec, int num_threads) {
  return needs_one_thread(codec) ? 1 : std::max(1, num_threads);
}

// Callback of libav, called by the decoder's threads for each picture. libav reuses the memory of
// earlier pictures, so the unwritten part of a picture would depend on where decoding began; it is
// cleared for the decoders that leave such parts.
int Decoder::get_picture_memory(AVCodecContext* codec, AVFrame* frame, int flags) {
  PictureMemory& memory = *static_cast<PictureMemory*>(codec->opaque);
  const int status = avcodec_default_get_buffer2(codec, frame, flags);
  if (status == AVERROR(ENOMEM)) memory.is_lacking.store(true);
  if (status < 0 || !memory.must_be_blank) return status;
  for (const AVBufferRef* const buffer : frame->buf) {
    if (buffer != nullptr) std::memset(buffer->data, 0, buffer->size);
  }
  return status;
}

template <class Call>
int Decoder::watched(Call&& call) {
  errno = 0;
  const int status = call();
  has_seen_enomem_ = has_seen_enomem_ || errno == ENOMEM;
  return status;
}

Decoder::Decoder(Input& input, int num_threads, Damage damage)
    : name_(input.name()), frame_(make_frame()) {
  const AVCodecParameters& parameters = input.codec_parameters();
  const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
  if (codec == nullptr) {
    throw Error(ErrorCode::kNoFrames, input.name() + ": this FFmpeg has no decoder for the codec " +
                                          avcodec_get_name(parameters.codec_id));
  }
  codec_.reset(avcodec_alloc_context3(codec));
  if (codec_ == nullptr || avcodec_parameters_to_context(codec_.get(), &parameters) < 0) {
    throw Error(ErrorCode::kOutOfMemory, input.name() + ": libav cannot allocate a decoder");
  }
  codec_->pkt_timebase = input.stream().time_base;
  codec_->max_pixels = input.limits().max_pixels;
  codec_->thread_count = threads_for(parameters.codec_id, num_threads);
  codec_->thread_type = FF_THREAD_FRAME;
  picture_memory_.must_be_blank = leaves_pictures_unfinished(parameters.codec_id);
  codec_->opaque = &picture_memory_;
  codec_->get_buffer2 = &get_picture_memory;
#if LIBAVCODEC_VERSION_MAJOR < 60
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  codec_->thread_safe_callbacks = 1;  // later versions assume it
#pragma GCC diagnostic pop
#endif
  codec_->err_recognition |= reported_errors(parameters.codec_id, damage);
  const int status = watched([&] { return avcodec_open2(codec_.get(), codec, nullptr); });
  // EAGAIN means that no thread could be started.
  check_memory(status == AVERROR(EAGAIN) ? AVERROR(ENOMEM) : status);
  if (status < 0) {
    throw Error(ErrorCode::kNoFrames, input.name() + ": the decoder " + codec->name +
                                          " cannot start on this stream (" + av_reason(status) +
                                          ")");
  }
}

void Decoder::set_unreferenced(Unreferenced choice) {
  const bool skip = choice == Unreferenced::kSkip && marks_unreferenced(codec_->codec_id);
  codec_->skip_frame = skip ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
}

void Decoder::send(const AVPacket& packet, const OnFrame& on_frame) {
  const auto try_to_send = [&] { return avcodec_send_packet(codec_.get(), &packet); };
  int status = watched(try_to_send);
  if (status == AVERROR(EAGAIN)) {
    receive(on_frame);
    status = watched(try_to_send);
  }
  check_memory(status);
  if (status < 0) ++num_errors_;
  receive(on_frame);
}

void Decoder::drain(const OnFrame& on_frame) {
  const int status = watched([&] { return avcodec_send_packet(codec_.get(), nullptr); });
  check_memory(status);
  if (status < 0) ++num_errors_;
  receive(on_frame);
  avcodec_flush_buffers(codec_.get());
}

// Detects an HEVC stream entered at a frame that a damaged index wrongly marks as a keyframe:
// libav's decoder then substitutes missing references without reporting it. Frames of raw streams
// have no times and are not entered by an index.
bool Decoder::is_false_start(const AVFrame& frame) const {
  const std::int64_t pts = pts_of(frame);
  return codec_->codec_id == AV_CODEC_ID_HEVC && pts != AV_NOPTS_VALUE && pts == whole_from_pts_ &&
         !is_keyframe(frame);
}

void Decoder::receive(const OnFrame& on_frame) {
  for (int errors_in_a_row = 0; errors_in_a_row < kMaxErrorsInARow;) {
    const int status = watched([&] { return avcodec_receive_frame(codec_.get(), frame_.get()); });
    check_memory(status);
    if (status == AVERROR(EAGAIN) || status == AVERROR_EOF) return;
    if (status < 0) {
      ++errors_in_a_row;
      ++num_errors_;
      continue;
    }
    errors_in_a_row = 0;
    if (is_false_start(*frame_)) ++num_errors_;
    if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
      if (pts_of(*frame_) >= whole_from_pts_) ++num_errors_;
    } else {
      on_frame(*frame_);
    }
    av_frame_unref(frame_.get());
  }
}

// Decoders go on without what they could not allocate: H.264's then shows a wrong picture and
// reports success. So the returned status does not count where the allocator has set errno.
void Decoder::check_memory(int status) const {
  const bool lacks_memory = has_seen_enomem_ || picture_memory_.is_lacking;
  if (status == AVERROR(ENOMEM) || lacks_memory) fail_for_memory();
}

void Decoder::fail_for_memory() const {
  // codec_->codec is null after an avcodec_open2() that failed.
  throw Error(ErrorCode::kOutOfMemory,
              name_ + ": not enough memory or threads for the decoder " +
                  avcodec_get_name(codec_->codec_id) +
                  "; lower --threads, or --max-frame-pixels to refuse large pictures");
}

}  // namespace caption::video
