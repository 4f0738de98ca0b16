#include "video/image.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
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

PacketPtr encode(const Frame& frame) {
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_PNG);
  if (encoder == nullptr) throw Error(ErrorCode::kIo, "this FFmpeg has no PNG encoder");
  const CodecPtr codec(avcodec_alloc_context3(encoder));
  const FramePtr picture = make_frame();
  PacketPtr packet = make_packet();
  if (codec == nullptr) throw Error(ErrorCode::kOutOfMemory, "libav cannot allocate an encoder");
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
                "cannot encode a PNG of " + std::to_string(frame.width_px) + "x" +
                    std::to_string(frame.height_px) + " pixels (" + av_reason(status) + ")");
  }
  return packet;
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

// A chunk with a text. Source: PNG specification, third edition, sections 5.3 and 11.3.3.2.
std::string text_chunk(std::string_view keyword, std::string_view text) {
  std::string body = "tEXt";
  body.append(keyword).append(1, '\0').append(text);
  const std::uint32_t crc =
      ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), 0xFFFFFFFF,
              reinterpret_cast<const std::uint8_t*>(body.data()), body.size());
  return big_endian(static_cast<std::uint32_t>(body.size() - 4)) + body + big_endian(crc);
}

}  // namespace

std::string encode_png(const Frame& frame, std::string_view software) {
  constexpr std::size_t kHeaderBytes = 8 + 25;  // the signature and the first chunk, IHDR
  require_whole(frame);
  silence_libav();
  const PacketPtr packet = encode(frame);
  std::string png(reinterpret_cast<const char*>(packet->data),
                  static_cast<std::size_t>(packet->size));
  CAPTION_CHECK(png.size() > kHeaderBytes, "libav's PNG is shorter than a header");
  return png.insert(kHeaderBytes, text_chunk("Software", software));
}

}  // namespace caption::video
