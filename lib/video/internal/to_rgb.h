// video/internal/to_rgb.h: a decoded picture made upright, square-pixelled RGB8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "video/clip.h"
#include "video/internal/av.h"
#include "video/read_clip.h"

namespace caption::video {

// How a stored picture is turned for display: (x', y') = (xx*x + xy*y, yx*x + yy*y) with y down
// and entries -1, 0, 1; one of xx and xy is 0, one of yx and yy is 0.
struct Orientation {
  int xx = 1, xy = 0, yx = 0, yy = 1;

  bool is_transposed() const { return xx == 0; }
  bool is_mirrored() const { return xx * yy - xy * yx < 0; }
  // 0, 90, 180 or 270; of a mirrored picture the turn after a horizontal flip.
  int clockwise_degrees() const;
};

// The multiple of 90 degrees (and flip) nearest to a 3x3 display matrix in 16.16 fixed point
// (ISO/IEC 14496-12 §6.2.2). Identity for a null or degenerate one.
Orientation orientation_from_matrix(const std::int32_t* matrix);

// The stream's display matrix, or null. Valid as long as the stream.
const std::int32_t* stream_display_matrix(const AVStream& stream);

// The sample aspect ratio that the container gives, else the codec's; 0/1 when unknown.
AVRational stream_sample_aspect_ratio(const AVStream& stream);

struct Size {
  int width_px = 0;
  int height_px = 0;

  bool operator==(const Size&) const = default;
};
// The size with square pixels: the smaller side is widened. An absurd or missing ratio is ignored.
Size square_pixel_size(Size size, AVRational sample_aspect_ratio);

// Converts frames of one stream. Colour matrix and range are honoured. A range that the file leaves
// open is limited, except in the pixel formats that are full by definition; a matrix that it leaves
// open, or that libswscale does not know, is the one given. HDR transfer curves are not
// tone-mapped. Used by one thread at a time.
class RgbConverter {
 public:
  // `name` is the file's, for messages; `untagged` is for pictures without a colour matrix.
  RgbConverter(const AVStream& stream, std::string name, ColorMatrix untagged);

  // Fills width, height and rgb of the result. Throws Error(kDecode) when libswscale cannot, and
  // Error(kOutOfMemory).
  Frame convert(const AVFrame& frame);

 private:
  struct Picture;
  // All that libswscale's tables depend on.
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
  ScalerPtr scaler_;  // of the frame before; frames of a stream are mostly alike
  Conversion scaler_is_for_;
  std::vector<std::uint8_t> planes_;  // green, blue and red of one picture
};

}  // namespace caption::video
