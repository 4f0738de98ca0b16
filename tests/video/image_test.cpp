#include "video/image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "tests/video/make_clip.h"
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

Frame solid(int width_px, int height_px, std::uint8_t level) {
  Frame frame = gradient(width_px, height_px);
  std::fill(frame.rgb.begin(), frame.rgb.end(), level);
  return frame;
}

std::vector<std::uint8_t> decode_png(const std::filesystem::path& path) {
  const std::vector<char> bytes = test::read_bytes(path);
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
    const test::TemporaryFolder folder;
    for (const auto& [width_px, height_px] : {std::pair{1, 1}, {3, 5}, {67, 41}}) {
      const Frame frame = gradient(width_px, height_px);
      const auto path = folder.path() / "frame.png";
      write_png(path, frame);
      CHECK(decode_png(path) == frame.rgb);
    }
    CHECK_THROWS_AS(write_png(folder.path() / "no" / "folder.png", gradient(2, 2)), Error);
  }

  TEST_CASE("a contact sheet shows the frames in order, four to a row") {
    Clip clip;
    for (int i = 0; i < 6; ++i) {
      clip.frames.push_back(solid(40, i < 4 ? 20 : 40, static_cast<std::uint8_t>(40 * (i + 1))));
    }
    const Frame sheet = contact_sheet(clip, 10);
    CHECK(sheet.width_px == 40);
    CHECK(sheet.height_px == 5 + 10);  // aspect ratios kept
    const auto level_at = [&](int x, int y) {
      return static_cast<int>(sheet.rgb[static_cast<std::size_t>((y * sheet.width_px + x) * 3)]);
    };
    for (int i = 0; i < 6; ++i) {
      CAPTURE(i);
      CHECK(std::abs(level_at(i % 4 * 10 + 5, i < 4 ? 2 : 10) - 40 * (i + 1)) <= 1);
    }
    CHECK(level_at(35, 10) == 0);  // an empty cell is black
    CHECK_THROWS_AS(contact_sheet(Clip{}, 10), Error);
  }
}

}  // namespace
}  // namespace caption::video
