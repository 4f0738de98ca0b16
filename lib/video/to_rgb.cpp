#include "video/internal/to_rgb.h"

#include <algorithm>
#include <cerrno>
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
// The ratio of anamorphic film stays below 2.4; a ratio beyond this limit is a damaged field.
constexpr double kMaxAspect = 8.0;
// libswscale's vector code writes past the end of a row, up to the size of a register.
constexpr int kRowAlignmentBytes = 64;
constexpr int kNumPlanes = 3;

// The yuvj formats imply full range; libswscale expects the plain format and the range separately.
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

// The SWS_CS_* constant of the frame's colour matrix; libswscale has none for the colour spaces
// that are not listed here.
int matrix_of(const AVFrame& frame, ColorMatrix untagged) {
  switch (frame.colorspace) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SWS_CS_ITU601;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    default: return untagged == ColorMatrix::kBt709 ? SWS_CS_ITU709 : SWS_CS_ITU601;
  }
}

int aligned_pitch_bytes(int row_bytes) {
  return (row_bytes + kRowAlignmentBytes - 1) / kRowAlignmentBytes * kRowAlignmentBytes;
}

std::size_t plane_bytes(int pitch_bytes, int height_px) {
  return static_cast<std::size_t>(pitch_bytes) * static_cast<std::size_t>(height_px);
}

// libswscale converts YUV to planes of green, blue and red with vector code, but to packed RGB with
// scalar loops: planes and a pass that packs them are seven times as fast and give the same bits
// (tests/video/to_rgb_test.cpp). Other formats are converted to packed RGB directly, because there
// planes may be rounded differently.
bool is_faster_in_planes(AVPixelFormat format) {
  const AVPixFmtDescriptor* const descriptor = av_pix_fmt_desc_get(format);
  return descriptor != nullptr && descriptor->nb_components >= kNumPlanes &&
         (descriptor->flags & AV_PIX_FMT_FLAG_RGB) == 0;
}

void pack_row(const std::uint8_t* __restrict red, const std::uint8_t* __restrict green,
              const std::uint8_t* __restrict blue, std::ptrdiff_t width_px,
              std::uint8_t* __restrict rgb) {
  for (std::ptrdiff_t x = 0; x < width_px; ++x) {
    rgb[3 * x] = red[x];
    rgb[3 * x + 1] = green[x];
    rgb[3 * x + 2] = blue[x];
  }
}

int sign(std::int32_t value) { return value < 0 ? -1 : 1; }

}  // namespace

int Orientation::clockwise_degrees() const {
  const int flip = is_mirrored() ? -1 : 1;  // the direction of the x axis before the rotation
  if (xx != 0) return xx * flip > 0 ? 0 : 180;
  return yx * flip > 0 ? 90 : 270;
}

Orientation orientation_from_matrix(const std::int32_t* matrix) {
  Orientation orientation;
  if (matrix == nullptr) return orientation;
  // The matrix of the format multiplies row vectors: x' = m[0] x + m[3] y, y' = m[1] x + m[4] y.
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
  return reinterpret_cast<const std::int32_t*>(bytes);  // libav aligns side data
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

RgbConverter::RgbConverter(const AVStream& stream, std::string name, ColorMatrix untagged)
    : name_(std::move(name)),
      untagged_(untagged),
      orientation_(orientation_from_matrix(stream_display_matrix(stream))),
      sample_aspect_ratio_(stream_sample_aspect_ratio(stream)) {}

// Rows of RGB8, pitch_bytes apart.
struct RgbConverter::Picture {
  Size size;
  int pitch_bytes;
  std::vector<std::uint8_t> bytes;

  Picture(Size of, int pitch) : size(of), pitch_bytes(pitch) {
    bytes.resize(plane_bytes(pitch, size.height_px) + kRowAlignmentBytes);
  }
};

RgbConverter::Picture RgbConverter::to_rgb(const AVFrame& frame, Size to) {
  const auto [format, is_full_by_name] = split_range(static_cast<AVPixelFormat>(frame.format));
  Conversion conversion{.from = {frame.width, frame.height},
                        .from_format = format,
                        .is_full_range = is_full_by_name || frame.color_range == AVCOL_RANGE_JPEG,
                        .matrix = matrix_of(frame, untagged_),
                        .to = to,
                        .to_format = AV_PIX_FMT_RGB24};
  const int row_bytes = to.width_px * kRgbBytes;
  if (!is_faster_in_planes(format)) {
    Picture picture(to, aligned_pitch_bytes(row_bytes));
    std::uint8_t* const planes[4] = {picture.bytes.data()};
    const int pitches_bytes[4] = {picture.pitch_bytes};
    scale(frame, conversion, planes, pitches_bytes);
    return picture;
  }
  conversion.to_format = AV_PIX_FMT_GBRP;
  const int pitch = aligned_pitch_bytes(to.width_px);
  const std::size_t size_bytes = plane_bytes(pitch, to.height_px);
  planes_.resize(kNumPlanes * size_bytes + kRowAlignmentBytes);
  std::uint8_t* const green = planes_.data();
  std::uint8_t* const blue = green + size_bytes;
  std::uint8_t* const red = blue + size_bytes;
  std::uint8_t* const planes[4] = {green, blue, red};
  const int pitches_bytes[4] = {pitch, pitch, pitch};
  scale(frame, conversion, planes, pitches_bytes);
  Picture picture(to, row_bytes);
  for (std::ptrdiff_t y = 0; y < to.height_px; ++y) {
    pack_row(red + y * pitch, green + y * pitch, blue + y * pitch, to.width_px,
             picture.bytes.data() + y * row_bytes);
  }
  return picture;
}

void RgbConverter::scale(const AVFrame& frame, const Conversion& conversion,
                         std::uint8_t* const planes[4], const int pitches_bytes[4]) {
  const auto& [from, from_format, is_full_range, matrix, to, to_format] = conversion;
  const char* const format_name = av_get_pix_fmt_name(from_format);
  const auto what = [&, from = from] {
    return std::to_string(from.width_px) + "x" + std::to_string(from.height_px) + " " +
           (format_name != nullptr ? format_name : "unknown pixel format");
  };
  const auto fail_for_memory = [&] {
    throw Error(ErrorCode::kOutOfMemory,
                name_ + ": libswscale has not enough memory for a picture of " + what());
  };
  if (scaler_ == nullptr || conversion != scaler_is_for_) {
    scaler_.reset(sws_getContext(
        from.width_px, from.height_px, from_format, to.width_px, to.height_px, to_format,
        SWS_BICUBIC | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_ACCURATE_RND, nullptr, nullptr,
        nullptr));
    if (scaler_ == nullptr) {
      // sws_getContext() fails for lack of memory or for an unsupported format, without reporting
      // which.
      if (sws_isSupportedInput(from_format) > 0) fail_for_memory();
      throw Error(ErrorCode::kDecode,
                  name_ + ": libswscale cannot turn a picture of " + what() + " into RGB");
    }
    // This call fails for RGB pictures, for which there is nothing to set.
    sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(matrix), is_full_range ? 1 : 0,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    scaler_is_for_ = conversion;
  }
  const int num_rows =
      sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, pitches_bytes);
  if (num_rows == AVERROR(ENOMEM)) fail_for_memory();
  if (num_rows != to.height_px) {
    throw Error(ErrorCode::kDecode, name_ + ": libswscale failed on a picture of " + what());
  }
}

// Copies the picture, rotated, into rows without padding. The inverse of an Orientation is its
// transpose.
Frame RgbConverter::turn(Picture picture, const Orientation& orientation) {
  Frame frame;
  frame.width_px = picture.size.width_px;
  frame.height_px = picture.size.height_px;
  if (orientation.is_transposed()) std::swap(frame.width_px, frame.height_px);
  const std::size_t size_bytes = static_cast<std::size_t>(frame.width_px) *
                                 static_cast<std::size_t>(frame.height_px) * kRgbBytes;
  const bool is_upright = orientation.xx + orientation.yy == 2;
  if (is_upright && picture.pitch_bytes == frame.width_px * kRgbBytes) {  // already without padding
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

Frame RgbConverter::convert(const AVFrame& frame) {
  const AVRational aspect =
      sample_aspect_ratio_.num > 0 ? sample_aspect_ratio_ : frame.sample_aspect_ratio;
  const Size size = square_pixel_size({frame.width, frame.height}, aspect);
  return turn(to_rgb(frame, size), orientation_);
}

}  // namespace caption::video
