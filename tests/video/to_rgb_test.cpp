#include "video/internal/to_rgb.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace caption::video {
namespace {

constexpr std::int32_t kOne = 1 << 16;

struct TurnCase {
  const char* name;
  std::int32_t xx, yx, xy, yy;  // in the order of the file: a b / c d
  int degrees;
  // The picture 012/345 after the rotation, row by row.
  std::array<int, 6> expected;
  int width_px;
};
constexpr TurnCase kTurns[] = {
    {"as stored", kOne, 0, 0, kOne, 0, {0, 1, 2, 3, 4, 5}, 3},
    {"clockwise", 0, kOne, -kOne, 0, 90, {3, 0, 4, 1, 5, 2}, 2},
    {"upside down", -kOne, 0, 0, -kOne, 180, {5, 4, 3, 2, 1, 0}, 3},
    {"counter-clockwise", 0, -kOne, kOne, 0, 270, {2, 5, 1, 4, 0, 3}, 2},
    {"left and right swapped", -kOne, 0, 0, kOne, 0, {2, 1, 0, 5, 4, 3}, 3},
    {"top and bottom swapped", kOne, 0, 0, -kOne, 180, {3, 4, 5, 0, 1, 2}, 3},
    {"transposed", 0, kOne, kOne, 0, 270, {0, 3, 1, 4, 2, 5}, 2},
    {"transposed at the other diagonal", 0, -kOne, -kOne, 0, 90, {5, 2, 4, 1, 3, 0}, 2},
    {"clockwise but for 20 degrees", 22417, 61583, -61583, 22417, 90, {3, 0, 4, 1, 5, 2}, 2},
    {"no direction at all", 0, 0, 0, 0, 0, {0, 1, 2, 3, 4, 5}, 3},
};

FramePtr six_pixels() {
  FramePtr frame = make_frame();
  frame->format = AV_PIX_FMT_RGB24;
  frame->width = 3;
  frame->height = 2;
  REQUIRE(av_frame_get_buffer(frame.get(), 0) >= 0);
  for (int i = 0; i < 6; ++i) {
    std::memset(frame->data[0] + i / 3 * frame->linesize[0] + i % 3 * 3, 40 * i, 3);
  }
  return frame;
}

void set_matrix(AVStream& stream, const TurnCase& c) {
  const std::int32_t matrix[9] = {c.xx, c.yx, 0, c.xy, c.yy, 0, 0, 0, 1 << 30};
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  AVPacketSideData* side = av_packet_side_data_new(&stream.codecpar->coded_side_data,
                                                   &stream.codecpar->nb_coded_side_data,
                                                   AV_PKT_DATA_DISPLAYMATRIX, sizeof matrix, 0);
  REQUIRE(side != nullptr);
  std::memcpy(side->data, matrix, sizeof matrix);
#else
  std::uint8_t* bytes = av_stream_new_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, sizeof matrix);
  REQUIRE(bytes != nullptr);
  std::memcpy(bytes, matrix, sizeof matrix);
#endif
}

// A picture of noise in the bit range of the format.
FramePtr noise(AVPixelFormat format, int width_px, int height_px, std::uint32_t seed) {
  FramePtr frame = make_frame();
  frame->format = format;
  frame->width = width_px;
  frame->height = height_px;
  REQUIRE(av_frame_get_buffer(frame.get(), 0) >= 0);
  const AVPixFmtDescriptor& descriptor = *av_pix_fmt_desc_get(format);
  const AVComponentDescriptor& component = descriptor.comp[0];
  const bool is_wide = component.depth > 8 && component.shift == 0;
  const bool is_big_endian = (descriptor.flags & AV_PIX_FMT_FLAG_BE) != 0;
  std::mt19937 generator(seed);
  for (const AVBufferRef* buffer : frame->buf) {
    if (buffer == nullptr) continue;
    for (std::size_t i = 0; i + 1 < buffer->size; i += 2) {
      auto bits = static_cast<std::uint32_t>(generator());
      if (is_wide) bits &= (1u << component.depth) - 1u;
      const auto low = static_cast<std::uint8_t>(bits), high = static_cast<std::uint8_t>(bits >> 8);
      buffer->data[i] = is_big_endian ? high : low;
      buffer->data[i + 1] = is_big_endian ? low : high;
    }
  }
  return frame;
}

// The frame converted to packed RGB by libswscale directly.
std::vector<std::uint8_t> packed_by_libswscale(const AVFrame& frame, Size to) {
  const ScalerPtr scaler(
      sws_getContext(frame.width, frame.height, static_cast<AVPixelFormat>(frame.format),
                     to.width_px, to.height_px, AV_PIX_FMT_RGB24,
                     SWS_BICUBIC | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_ACCURATE_RND,
                     nullptr, nullptr, nullptr));
  REQUIRE(scaler != nullptr);
  sws_setColorspaceDetails(scaler.get(), sws_getCoefficients(SWS_CS_ITU601), 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  constexpr int kSlackBytes = 64;
  const int row_bytes = 3 * to.width_px, pitch_bytes = row_bytes + kSlackBytes;
  std::vector<std::uint8_t> padded(static_cast<std::size_t>(pitch_bytes * to.height_px));
  std::uint8_t* const planes[4] = {padded.data()};
  const int pitches_bytes[4] = {pitch_bytes};
  REQUIRE(sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, planes,
                    pitches_bytes) == to.height_px);
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < to.height_px; ++y) {
    const auto row = padded.begin() + y * pitch_bytes;
    rgb.insert(rgb.end(), row, row + row_bytes);
  }
  return rgb;
}

TEST_SUITE("video/to_rgb") {
  TEST_CASE("all eight orientations of a display matrix turn the picture upright") {
    for (const TurnCase& c : kTurns) {
      CAPTURE(std::string(c.name));
      const FormatPtr format(avformat_alloc_context());
      AVStream* stream = avformat_new_stream(format.get(), nullptr);
      set_matrix(*stream, c);
      const Frame turned = RgbConverter(*stream, "clip", ColorMatrix::kAuto).convert(*six_pixels());
      CHECK(turned.width_px == c.width_px);
      CHECK(turned.height_px == 6 / c.width_px);
      for (std::size_t i = 0; i < 6; ++i) CHECK(turned.rgb[3 * i] == 40 * c.expected[i]);
      CHECK(orientation_from_matrix(stream_display_matrix(*stream)).clockwise_degrees() ==
            c.degrees);
    }
    CHECK(orientation_from_matrix(nullptr).clockwise_degrees() == 0);
  }

  TEST_CASE("the smaller side grows until pixels are square") {
    struct AspectCase {
      AVRational aspect;
      int width_px, height_px;
    };
    constexpr AspectCase kAspects[] = {
        {{1, 1}, 720, 576},  {{16, 15}, 768, 576},   {{64, 45}, 1024, 576},
        {{8, 9}, 720, 648},  {{0, 1}, 720, 576},     {{1, 0}, 720, 576},
        {{-4, 3}, 720, 576}, {{10000, 1}, 720, 576}, {{1, 10000}, 720, 576}};
    for (const AspectCase& c : kAspects) {
      CAPTURE(c.aspect.num);
      const Size size = square_pixel_size({720, 576}, c.aspect);
      CHECK(size.width_px == c.width_px);
      CHECK(size.height_px == c.height_px);
    }
  }

  TEST_CASE("every YUV format gives libswscale's own packed RGB to the last bit") {
    struct SizeCase {
      int width_px, height_px;
      AVRational aspect;
    };
    constexpr SizeCase kSizes[] = {{98, 64, {1, 1}}, {97, 61, {1, 1}}, {64, 50, {4, 3}},
                                   {64, 50, {3, 4}}, {131, 9, {1, 1}}, {2, 2, {1, 1}}};
    const FormatPtr format_context(avformat_alloc_context());
    const AVStream* stream = avformat_new_stream(format_context.get(), nullptr);
    // One converter handles all frames, although each may have another format than the last.
    RgbConverter converter(*stream, "clip", ColorMatrix::kAuto);
    int num_formats = 0;
    for (const AVPixFmtDescriptor* descriptor = av_pix_fmt_desc_next(nullptr);
         descriptor != nullptr; descriptor = av_pix_fmt_desc_next(descriptor)) {
      const AVPixelFormat format = av_pix_fmt_desc_get_id(descriptor);
      const std::string name = descriptor->name;
      const bool is_yuv =
          descriptor->nb_components >= 3 && (descriptor->flags & AV_PIX_FMT_FLAG_RGB) == 0;
      const bool says_its_range = name.rfind("yuvj", 0) == 0;
      if (!is_yuv || says_its_range || !sws_isSupportedInput(format)) continue;
      CAPTURE(name);
      ++num_formats;
      for (const SizeCase& c : kSizes) {
        CAPTURE(c.width_px);
        const FramePtr frame = noise(format, c.width_px, c.height_px, 7);
        frame->sample_aspect_ratio = c.aspect;
        const Size to = square_pixel_size({c.width_px, c.height_px}, c.aspect);
        const std::vector<std::uint8_t> want = packed_by_libswscale(*frame, to);
        CHECK(converter.convert(*frame).rgb == want);
        CHECK(converter.convert(*frame).rgb == want);
      }
    }
    CHECK(num_formats > 60);
  }

  TEST_CASE("a mid-size picture of every common pixel format comes out dense") {
    for (const AVPixelFormat format :
         {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV444P12LE, AV_PIX_FMT_NV12,
          AV_PIX_FMT_P010LE, AV_PIX_FMT_GBRP, AV_PIX_FMT_GRAY16LE, AV_PIX_FMT_PAL8,
          AV_PIX_FMT_MONOBLACK, AV_PIX_FMT_YUYV422, AV_PIX_FMT_RGBA64LE, AV_PIX_FMT_YUVA444P}) {
      CAPTURE(std::string(av_get_pix_fmt_name(format)));
      FramePtr frame = make_frame();
      frame->format = format;
      frame->width = 37;
      frame->height = 23;
      REQUIRE(av_frame_get_buffer(frame.get(), 0) >= 0);
      for (const AVBufferRef* buffer : frame->buf) {
        if (buffer != nullptr) std::memset(buffer->data, 0, buffer->size);
      }
      const FormatPtr format_context(avformat_alloc_context());
      const AVStream* stream = avformat_new_stream(format_context.get(), nullptr);
      const Frame rgb = RgbConverter(*stream, "clip", ColorMatrix::kAuto).convert(*frame);
      CHECK(rgb.rgb.size() == 37u * 23u * 3u);
    }
  }
}

}  // namespace
}  // namespace caption::video
