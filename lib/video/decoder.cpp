#include "video/internal/decoder.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace caption::video {
namespace {

// Errors in a row after which a decoder that neither gives a frame nor asks for a packet is left.
constexpr int kMaxErrorsInARow = 64;

// H.264 (nal_ref_idc = 0) and MPEG-1/2 (B pictures) mark frames that nothing ever refers to. HEVC's
// mark speaks of one temporal layer only, and VP8's skipped frames still carry decoder state.
bool marks_unreferenced(AVCodecID codec) {
  return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_MPEG1VIDEO ||
         codec == AV_CODEC_ID_MPEG2VIDEO;
}

// Decoders that conceal damage and mark the frame. With frame threads they may give a frame out
// before its mark is set, so that which frames are whole would depend on timing.
bool marks_damage_late(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_FFV1:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_PRORES:
    case AV_CODEC_ID_DNXHD: return false;
    default: return true;
  }
}

// Called by the decoder's threads for each picture.
int get_picture_memory(AVCodecContext* codec, AVFrame* frame, int flags) {
  const int status = avcodec_default_get_buffer2(codec, frame, flags);
  if (status == AVERROR(ENOMEM)) static_cast<std::atomic<bool>*>(codec->opaque)->store(true);
  return status;
}

}  // namespace

int Decoder::threads_for(AVCodecID codec, int num_threads) {
  return marks_damage_late(codec) ? 1 : std::max(1, num_threads);
}

Decoder::Decoder(Input& input, int num_threads) : name_(input.name()), frame_(make_frame()) {
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
  codec_->opaque = &lacks_memory_;
  codec_->get_buffer2 = &get_picture_memory;
#if LIBAVCODEC_VERSION_MAJOR < 60
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  codec_->thread_safe_callbacks = 1;  // later versions take it for granted
#pragma GCC diagnostic pop
#endif
  // FFV1 would fill a damaged slice from the frame decoded before and not say so.
  if (parameters.codec_id == AV_CODEC_ID_FFV1) codec_->err_recognition |= AV_EF_EXPLODE;
  const int status = avcodec_open2(codec_.get(), codec, nullptr);
  check_memory(status == AVERROR(EAGAIN) ? AVERROR(ENOMEM) : status);  // EAGAIN: no thread
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
  int status = avcodec_send_packet(codec_.get(), &packet);
  if (status == AVERROR(EAGAIN)) {
    receive(on_frame);
    status = avcodec_send_packet(codec_.get(), &packet);
  }
  check_memory(status);
  if (status < 0) ++num_errors_;
  receive(on_frame);
}

void Decoder::drain(const OnFrame& on_frame) {
  const int status = avcodec_send_packet(codec_.get(), nullptr);
  check_memory(status);
  if (status < 0) ++num_errors_;
  receive(on_frame);
  avcodec_flush_buffers(codec_.get());
}

void Decoder::receive(const OnFrame& on_frame) {
  for (int errors_in_a_row = 0; errors_in_a_row < kMaxErrorsInARow;) {
    const int status = avcodec_receive_frame(codec_.get(), frame_.get());
    check_memory(status);
    if (status == AVERROR(EAGAIN) || status == AVERROR_EOF) return;
    if (status < 0) {
      ++errors_in_a_row;
      ++num_errors_;
      continue;
    }
    errors_in_a_row = 0;
    if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
      if (pts_of(*frame_) >= whole_from_pts_) ++num_errors_;
    } else {
      on_frame(*frame_);
    }
    av_frame_unref(frame_.get());
  }
}

void Decoder::check_memory(int status) const {
  if (status != AVERROR(ENOMEM) && !lacks_memory_) return;
  throw Error(ErrorCode::kOutOfMemory,
              name_ + ": not enough memory or threads for the decoder " + codec_->codec->name +
                  "; lower --threads, or --max-pixels to refuse large pictures");
}

}  // namespace caption::video
