#include "video/internal/to_rgb.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption::video {
namespace {

constexpr int kRgbBytes = 3;
// Anamorphic film stays below 2.4; beyond this the ratio is a damaged field.
constexpr double kMaxAspect = 8.0;
constexpr int kSmallestHdHeightPx = 720;
// libswscale's vector code writes past the row's end up to its register's size.
constexpr int kRowAlignmentBytes = 64;

// yuvj formats say "full range" in their name; libswscale wants it said apart.
std::pair<AVPixelFormat, bool> split_range(AVPixelFormat format) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P: return {AV_PIX_FMT_YUV420P, true};
    case AV_PIX_FMT_YUVJ422P: return {AV_PIX_FMT_YUV422P, true};
    case AV_PIX_FMT_YUVJ444P: return {AV_PIX_FMT_YUV444P, true};
    case AV_PIX_FMT_YUVJ440P: return {AV_PIX_FMT_YUV440P, true};
    case AV_PIX_FMT_YUVJ411P: return {AV_PIX_FMT_YUV411P, true};
    default: return {format, false};
  }
}

int matrix_of(const AVFrame& frame) {
  switch (frame.colorspace) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SWS_CS_ITU601;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    default: return frame.height < kSmallestHdHeightPx ? SWS_CS_ITU601 : SWS_CS_ITU709;
  }
}

// Rows of RGB8 whose pitch libswscale likes.
struct Picture {
  Size size;
  int pitch_bytes = 0;
  std::vector<std::uint8_t> bytes;

  explicit Picture(Size of) : size(of) {
    pitch_bytes = (size.width_px * kRgbBytes + kRowAlignmentBytes - 1) / kRowAlignmentBytes *
                  kRowAlignmentBytes;
    bytes.resize(static_cast<std::size_t>(pitch_bytes) * static_cast<std::size_t>(size.height_px) +
                 kRowAlignmentBytes);
  }
};

Picture scale_to_rgb(const AVFrame& frame, Size to, const std::string& name) {
  const auto [format, is_full_by_name] = split_range(static_cast<AVPixelFormat>(frame.format));
  const ScalerPtr scaler(
      sws_getContext(frame.width, frame.height, format, to.width_px, to.height_px, AV_PIX_FMT_RGB24,
                     SWS_BICUBIC | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_ACCURATE_RND,
                     nullptr, nullptr, nullptr));
  const std::string what = std::to_string(frame.width) + "x" + std::to_string(frame.height) + " " +
                           (av_get_pix_fmt_name(format) != nullptr ? av_get_pix_fmt_name(format)
                                                                   : "unknown pixel format");
  if (scaler == nullptr) {
    throw Error(ErrorCode::kDecode,
                name + ": libswscale cannot turn a picture of " + what + " into RGB");
  }
  const bool is_full = is_full_by_name || frame.color_range == AVCOL_RANGE_JPEG;
  // Fails for pictures that are RGB already; there is nothing to set for them.
  sws_setColorspaceDetails(scaler.get(), sws_getCoefficients(matrix_of(frame)), is_full ? 1 : 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  Picture picture(to);
  std::uint8_t* const planes[4] = {picture.bytes.data(), nullptr, nullptr, nullptr};
  const int pitches[4] = {picture.pitch_bytes, 0, 0, 0};
  if (sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, planes, pitches) !=
      to.height_px) {
    throw Error(ErrorCode::kDecode, name + ": libswscale failed on a picture of " + what);
  }
  return picture;
}

// Copies the picture into dense rows, turned. The inverse of an Orientation is its transpose.
Frame turn(Picture picture, const Orientation& orientation) {
  Frame frame;
  frame.width_px = picture.size.width_px;
  frame.height_px = picture.size.height_px;
  if (orientation.is_transposed()) std::swap(frame.width_px, frame.height_px);
  const std::size_t size_bytes = static_cast<std::size_t>(frame.width_px) *
                                 static_cast<std::size_t>(frame.height_px) * kRgbBytes;
  const bool is_upright = orientation.xx + orientation.yy == 2;
  if (is_upright && picture.pitch_bytes == frame.width_px * kRgbBytes) {  // dense already
    picture.bytes.resize(size_bytes);
    frame.rgb = std::move(picture.bytes);
    return frame;
  }
  frame.rgb.resize(size_bytes);
  const std::ptrdiff_t pitch = picture.pitch_bytes;
  const std::ptrdiff_t step_x = orientation.xx * kRgbBytes + orientation.xy * pitch;
  const std::ptrdiff_t step_y = orientation.yx * kRgbBytes + orientation.yy * pitch;
  const int first_x = orientation.xx + orientation.yx < 0 ? picture.size.width_px - 1 : 0;
  const int first_y = orientation.xy + orientation.yy < 0 ? picture.size.height_px - 1 : 0;
  const std::uint8_t* row = picture.bytes.data() + first_y * pitch + first_x * kRgbBytes;
  std::uint8_t* out = frame.rgb.data();
  for (int y = 0; y < frame.height_px; ++y) {
    const std::uint8_t* from = row + y * step_y;
    if (step_x == kRgbBytes) {
      const std::size_t row_bytes = static_cast<std::size_t>(frame.width_px) * kRgbBytes;
      std::memcpy(out, from, row_bytes);
      out += row_bytes;
      continue;
    }
    for (int x = 0; x < frame.width_px; ++x, out += kRgbBytes) {
      std::memcpy(out, from + x * step_x, kRgbBytes);
    }
  }
  return frame;
}

int sign(std::int32_t value) { return value < 0 ? -1 : 1; }

}  // namespace

int Orientation::clockwise_degrees() const {
  const int flip = is_mirrored() ? -1 : 1;  // where the right-hand side went before the turn
  if (xx != 0) return xx * flip > 0 ? 0 : 180;
  return yx * flip > 0 ? 90 : 270;
}

Orientation orientation_from_matrix(const std::int32_t* matrix) {
  Orientation orientation;
  if (matrix == nullptr) return orientation;
  // The format's rows act on row vectors: x' = m[0] x + m[3] y, y' = m[1] x + m[4] y.
  const std::int32_t xx = matrix[0], xy = matrix[3], yx = matrix[1], yy = matrix[4];
  const auto size = [](std::int32_t value) { return std::abs(static_cast<double>(value)); };
  if (size(xx) + size(yy) == 0 && size(xy) + size(yx) == 0) return orientation;
  if (size(xx) + size(yy) >= size(xy) + size(yx)) return {sign(xx), 0, 0, sign(yy)};
  return {0, sign(xy), sign(yx), 0};
}

const std::int32_t* stream_display_matrix(const AVStream& stream) {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  const AVPacketSideData* side =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX);
  if (side != nullptr) {
    bytes = side->data;
    size = side->size;
  }
#else
  bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
#endif
  if (bytes == nullptr || size < 9 * sizeof(std::int32_t)) return nullptr;
  return reinterpret_cast<const std::int32_t*>(bytes);  // libav allocates side data aligned
}

AVRational stream_sample_aspect_ratio(const AVStream& stream) {
  if (stream.sample_aspect_ratio.num > 0) return stream.sample_aspect_ratio;
  return stream.codecpar->sample_aspect_ratio;
}

Size square_pixel_size(Size size, AVRational sample_aspect_ratio) {
  if (sample_aspect_ratio.num <= 0 || sample_aspect_ratio.den <= 0) return size;
  const double aspect = av_q2d(sample_aspect_ratio);
  if (aspect > kMaxAspect || aspect < 1.0 / kMaxAspect) return size;
  if (aspect > 1.0) size.width_px = static_cast<int>(std::lround(size.width_px * aspect));
  if (aspect < 1.0) size.height_px = static_cast<int>(std::lround(size.height_px / aspect));
  return size;
}

RgbConverter::RgbConverter(const AVStream& stream, std::string name)
    : name_(std::move(name)),
      orientation_(orientation_from_matrix(stream_display_matrix(stream))),
      sample_aspect_ratio_(stream_sample_aspect_ratio(stream)) {}

Frame RgbConverter::convert(const AVFrame& frame) const {
  const AVRational aspect =
      sample_aspect_ratio_.num > 0 ? sample_aspect_ratio_ : frame.sample_aspect_ratio;
  const Size size = square_pixel_size({frame.width, frame.height}, aspect);
  return turn(scale_to_rgb(frame, size, name_), orientation_);
}

}  // namespace caption::video
