// video/internal/av.h: libav's headers, and RAII types for its objects.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/crc.h>
#include <libavutil/imgutils.h>
#include <libavutil/parseutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

namespace caption::video {

struct AvDeleter {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
  void operator()(AVFormatContext* format) const { avformat_close_input(&format); }
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
using IoPtr = std::unique_ptr<AVIOContext, AvDeleter>;
using FormatPtr = std::unique_ptr<AVFormatContext, AvDeleter>;
using CodecPtr = std::unique_ptr<AVCodecContext, AvDeleter>;
using FramePtr = std::unique_ptr<AVFrame, AvDeleter>;
using PacketPtr = std::unique_ptr<AVPacket, AvDeleter>;
using ScalerPtr = std::unique_ptr<SwsContext, AvDeleter>;

// Throw Error(kOutOfMemory) instead of returning null.
FramePtr make_frame();
PacketPtr make_packet();

// libav's message for a negative return value.
std::string av_reason(int error_number);

// Stops libav from printing to stderr, where only our log may write. Idempotent and thread-safe.
void silence_libav();

}  // namespace caption::video
