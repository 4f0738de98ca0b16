// video/internal/to_rgb.h: a decoded picture made upright, square-pixelled RGB8.
#pragma once

#include <cstdint>
#include <string>

#include "video/clip.h"
#include "video/internal/av.h"

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
};
// The size with square pixels: the smaller side is widened. An absurd or missing ratio is ignored.
Size square_pixel_size(Size size, AVRational sample_aspect_ratio);

// Converts frames of one stream. Colour matrix and range are honoured; what a file leaves open is
// taken as players do: BT.601 below 720 lines, BT.709 from there on, limited range.
// HDR transfer curves are not tone-mapped.
class RgbConverter {
 public:
  // `name` is the file's, for messages.
  RgbConverter(const AVStream& stream, std::string name);

  // Fills width, height and rgb of the result. Throws Error(kDecode) when libswscale cannot.
  Frame convert(const AVFrame& frame) const;

 private:
  std::string name_;
  Orientation orientation_;
  AVRational sample_aspect_ratio_;
};

}  // namespace caption::video
