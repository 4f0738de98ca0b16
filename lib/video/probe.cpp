#include <filesystem>

#include "video/internal/frame_index.h"
#include "video/internal/input.h"
#include "video/internal/to_rgb.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

constexpr AVRational kMicroseconds{1, 1'000'000};

std::string colour_text(const AVCodecParameters& parameters) {
  const auto text = [](const char* name) {
    return std::string(name != nullptr ? name : "unknown");
  };
  return text(av_color_range_name(parameters.color_range)) + " " +
         text(av_color_space_name(parameters.color_space));
}

std::int64_t declared_duration_us(const AVFormatContext& format, const AVStream& stream) {
  // libav's guess from the size of the file and the bit rate, wrong by any factor.
  if (format.duration_estimation_method == AVFMT_DURATION_FROM_BITRATE) return 0;
  if (stream.duration > 0) return av_rescale_q(stream.duration, stream.time_base, kMicroseconds);
  return format.duration > 0 ? format.duration : 0;  // in AV_TIME_BASE units: microseconds
}

}  // namespace

Probe probe(const std::filesystem::path& path) { return probe(open_video(path)); }

Probe probe(const OpenFile& file) {
  const ReadLimits limits;
  const StopCondition stop(limits.max_decode_us, nullptr);
  Input input(file, {.max_pixels = limits.max_pixels, .oversized = OpenLimits::Oversized::kShow},
              stop);
  const AVStream& stream = input.stream();
  const AVCodecParameters& parameters = input.codec_parameters();
  const Orientation orientation = orientation_from_matrix(stream_display_matrix(stream));
  Size display =
      square_pixel_size({parameters.width, parameters.height}, stream_sample_aspect_ratio(stream));
  if (orientation.is_transposed()) std::swap(display.width_px, display.height_px);
  const char* pixel_format = av_get_pix_fmt_name(static_cast<AVPixelFormat>(parameters.format));

  Probe result;
  result.container = input.format().iformat->name;
  result.codec = avcodec_get_name(parameters.codec_id);
  result.pixel_format = pixel_format != nullptr ? pixel_format : "unknown";
  result.colour = colour_text(parameters);
  result.width_px = parameters.width;
  result.height_px = parameters.height;
  result.display_width_px = display.width_px;
  result.display_height_px = display.height_px;
  result.rotation_degrees = orientation.clockwise_degrees();
  result.duration_us = declared_duration_us(input.format(), stream);
  result.file_bytes = file.size_bytes();
  if (stream.avg_frame_rate.num > 0 && stream.avg_frame_rate.den > 0) {
    result.fps = av_q2d(stream.avg_frame_rate);
  }
  const FrameIndex index = build_frame_index(input);
  result.num_frames = index.num_shown();
  result.num_keyframes = index.num_shown_keyframes();
  return result;
}

}  // namespace caption::video
