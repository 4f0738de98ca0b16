#include "video/image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "video/internal/av.h"

namespace caption::video {
namespace {

Frame gradient(int width_px, int height_px) {
  Frame frame;
  frame.width_px = width_px;
  frame.height_px = height_px;
  for (int i = 0; i < width_px * height_px * 3; ++i) {
    frame.rgb.push_back(static_cast<std::uint8_t>(i * 7));
  }
  return frame;
}

std::vector<std::uint8_t> decode_png(const std::string& bytes) {
  const PacketPtr packet = make_packet();
  REQUIRE(av_new_packet(packet.get(), static_cast<int>(bytes.size())) >= 0);
  std::copy(bytes.begin(), bytes.end(), packet->data);
  const AVCodec* decoder = avcodec_find_decoder(AV_CODEC_ID_PNG);
  const CodecPtr codec(avcodec_alloc_context3(decoder));
  REQUIRE(avcodec_open2(codec.get(), decoder, nullptr) >= 0);
  REQUIRE(avcodec_send_packet(codec.get(), packet.get()) >= 0);
  avcodec_send_packet(codec.get(), nullptr);
  const FramePtr frame = make_frame();
  REQUIRE(avcodec_receive_frame(codec.get(), frame.get()) >= 0);
  REQUIRE(frame->format == AV_PIX_FMT_RGB24);
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < frame->height; ++y) {
    const std::uint8_t* row = frame->data[0] + y * frame->linesize[0];
    rgb.insert(rgb.end(), row, row + frame->width * 3);
  }
  return rgb;
}

TEST_SUITE("video/image") {
  TEST_CASE("a PNG holds the frame's very bytes") {
    for (const auto& [width_px, height_px] : {std::pair{1, 1}, {3, 5}, {67, 41}}) {
      const Frame frame = gradient(width_px, height_px);
      CHECK(decode_png(encode_png(frame, "a test")) == frame.rgb);
    }
    // libav refuses pictures of more than about 2^28 pixels.
    Frame huge;
    huge.width_px = 1;
    huge.height_px = 3 << 20;
    huge.rgb.assign(static_cast<std::size_t>(huge.height_px) * 3, 0);
    CHECK_THROWS_WITH_AS(encode_png(huge, "a test"),
                         doctest::Contains("cannot encode a PNG of 1x3145728 pixels"), Error);
  }

  // The sums are those of Python's zlib.crc32.
  TEST_CASE("a PNG names its maker in a chunk with a right checksum") {
    const std::string png = encode_png(gradient(2, 2), "a test");
    const std::string chunk("\0\0\0\x0FtEXtSoftware\0a test", 4 + 4 + 15);
    const std::size_t at = png.find(chunk);
    REQUIRE(at == 33);
    CHECK(png.substr(at + chunk.size(), 4) == std::string("\x2A\x4E\x0D\x70", 4));
  }
}

}  // namespace
}  // namespace caption::video
