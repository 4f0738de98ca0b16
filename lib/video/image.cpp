#include "video/image.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "video/internal/av.h"

namespace caption::video {
namespace {

constexpr int kRgbBytes = 3;

void require_whole(const Frame& frame) {
  CAPTION_CHECK(frame.width_px > 0 && frame.height_px > 0 &&
                    frame.rgb.size() == static_cast<std::size_t>(frame.width_px) *
                                            static_cast<std::size_t>(frame.height_px) * kRgbBytes,
                "a frame's bytes are width * height * 3");
}

// `path` is for messages.
PacketPtr encode_png(const std::filesystem::path& path, const Frame& frame) {
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_PNG);
  if (encoder == nullptr)
    throw Error(ErrorCode::kIo, path.string() + ": this FFmpeg has no PNG encoder");
  const CodecPtr codec(avcodec_alloc_context3(encoder));
  const FramePtr picture = make_frame();
  PacketPtr packet = make_packet();
  if (codec == nullptr)
    throw Error(ErrorCode::kOutOfMemory, path.string() + ": libav cannot allocate an encoder");
  codec->width = picture->width = frame.width_px;
  codec->height = picture->height = frame.height_px;
  codec->pix_fmt = AV_PIX_FMT_RGB24;
  codec->time_base = {1, 1};
  picture->format = AV_PIX_FMT_RGB24;
  int status = avcodec_open2(codec.get(), encoder, nullptr);
  if (status >= 0) status = av_frame_get_buffer(picture.get(), 0);
  if (status >= 0) {
    const int row_bytes = frame.width_px * kRgbBytes;
    av_image_copy_plane(picture->data[0], picture->linesize[0], frame.rgb.data(), row_bytes,
                        row_bytes, frame.height_px);
    status = avcodec_send_frame(codec.get(), picture.get());
  }
  if (status >= 0) status = avcodec_send_frame(codec.get(), nullptr);
  if (status >= 0) status = avcodec_receive_packet(codec.get(), packet.get());
  if (status < 0) {
    throw Error(status == AVERROR(ENOMEM) ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                path.string() + ": cannot encode a PNG of " + std::to_string(frame.width_px) + "x" +
                    std::to_string(frame.height_px) + " pixels (" + av_reason(status) + ")");
  }
  return packet;
}

}  // namespace

void write_png(const std::filesystem::path& path, const Frame& frame) {
  require_whole(frame);
  silence_libav();
  const PacketPtr png = encode_png(path, frame);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const int error = file.get() < 0
                        ? errno
                        : write_whole(file.get(), {reinterpret_cast<const char*>(png->data),
                                                   static_cast<std::size_t>(png->size)});
  if (error == 0) return;
  throw Error(output_error_code(error),
              path.string() + ": cannot write the picture: " + describe_errno(error));
}

}  // namespace caption::video
