// video/internal/to_rgb.h: converts decoded pictures to upright RGB8 with square pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "video/clip.h"
#include "video/internal/av.h"
#include "video/read_clip.h"

namespace caption::video {

// Rotation and flip of a stored picture for display: (x', y') = (xx*x + xy*y, yx*x + yy*y) with y
// down and entries -1, 0, 1; one of xx and xy is 0, one of yx and yy is 0.
struct Orientation {
  int xx = 1, xy = 0, yx = 0, yy = 1;

  bool is_transposed() const { return xx == 0; }
  bool is_mirrored() const { return xx * yy - xy * yx < 0; }
  // 0, 90, 180 or 270; for a mirrored picture, the rotation after a horizontal flip.
  int clockwise_degrees() const;
};

// The multiple of 90 degrees (and flip) nearest to a 3x3 display matrix in 16.16 fixed point
// (ISO/IEC 14496-12 §6.2.2). Identity for a null or degenerate one.
Orientation orientation_from_matrix(const std::int32_t* matrix);

// The stream's display matrix, or null when it has none; valid as long as the stream.
const std::int32_t* stream_display_matrix(const AVStream& stream);

// The sample aspect ratio that the container gives, else the codec's; 0/1 when unknown.
AVRational stream_sample_aspect_ratio(const AVStream& stream);

struct Size {
  int width_px = 0;
  int height_px = 0;

  bool operator==(const Size&) const = default;
};
// The size with square pixels: width or height is enlarged by the ratio. A ratio that is missing,
// above 8 or below 1/8 is ignored.
Size square_pixel_size(Size size, AVRational sample_aspect_ratio);

// Converts frames of one stream and applies their colour matrix and range. An unspecified range is
// taken as limited, except in pixel formats that are full-range by definition; an unspecified
// matrix, or one that libswscale does not support, is the one given by `untagged`. HDR transfer
// curves are not tone-mapped. For use by one thread at a time.
class RgbConverter {
 public:
  // `name` is the name of the file, for messages; `untagged` applies to pictures without a colour
  // matrix.
  RgbConverter(const AVStream& stream, std::string name, ColorMatrix untagged);

  // Sets width, height and rgb of the result. Throws Error(kDecode) when libswscale cannot convert
  // the picture, and Error(kOutOfMemory).
  Frame convert(const AVFrame& frame);

 private:
  struct Picture;
  // The parameters of an SwsContext.
  struct Conversion {
    Size from;
    AVPixelFormat from_format = AV_PIX_FMT_NONE;
    bool is_full_range = false;
    int matrix = 0;
    Size to;
    AVPixelFormat to_format = AV_PIX_FMT_NONE;

    bool operator==(const Conversion&) const = default;
  };

  Picture to_rgb(const AVFrame& frame, Size to);
  void scale(const AVFrame& frame, const Conversion& conversion, std::uint8_t* const planes[4],
             const int pitches_bytes[4]);
  static Frame turn(Picture picture, const Orientation& orientation);

  std::string name_;
  ColorMatrix untagged_;
  Orientation orientation_;
  AVRational sample_aspect_ratio_;
  ScalerPtr scaler_;  // the previous frame's; most frames of a stream have equal formats
  Conversion scaler_is_for_;
  std::vector<std::uint8_t> planes_;  // green, blue and red of one picture
};

}  // namespace caption::video
