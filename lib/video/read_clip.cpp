#include "video/read_clip.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "video/internal/sampled_frames.h"

namespace caption::video {
namespace {

void require_valid(const ReadOptions& options) {
  require_valid(options.sampling);
  CAPTION_CHECK(options.limits.max_pixels > 0 && options.limits.max_decode_us > 0,
                "limits of a clip are above 0");
}

// The declared rate if every frame is at frame_idx / rate, else 0.
double exact_fps(const std::vector<Frame>& frames, const Timeline& timeline) {
  const double fps = timeline.declared_fps;
  if (!(fps > 0)) return 0;
  // Half a tick each for the first frame and for this one, and the rounding to microseconds.
  const auto error_us = static_cast<double>(2 * timeline.tolerance_us + 1);
  const auto is_in_time = [&](const Frame& frame) {
    const double us = static_cast<double>(frame.frame_idx) / fps * 1e6;
    return std::abs(us - static_cast<double>(frame.pts_us)) <= error_us;
  };
  return std::all_of(frames.begin(), frames.end(), is_in_time) ? fps : 0;
}

// Moves the decoded frames into a Clip; a frame that was sampled several times is copied.
Clip make_clip(const std::string& name, SampledFrames& sampled) {
  Clip clip;
  clip.path = name;
  clip.frames_wanted = static_cast<int>(sampled.samples.size());
  clip.total_frames = sampled.timeline.num_frames();
  clip.duration_us = sampled.timeline.end_us;
  std::size_t next_sample = 0;
  for (Target& target : sampled.targets) {
    const std::size_t first = next_sample;
    while (next_sample < sampled.samples.size() &&
           sampled.samples[next_sample] == target.frame_idx) {
      ++next_sample;
    }
    if (!target.frame.has_value()) continue;
    target.frame->frame_idx = target.frame_idx;
    target.frame->pts_us = sampled.timeline.start_us[static_cast<std::size_t>(target.frame_idx)];
    for (std::size_t i = first + 1; i < next_sample; ++i) clip.frames.push_back(*target.frame);
    clip.frames.push_back(std::move(*target.frame));
  }
  clip.fps = exact_fps(clip.frames, sampled.timeline);
  return clip;
}

void add_warnings(const SampledFrames& sampled, const FrameIndex& index, Clip& clip) {
  const auto num_used = static_cast<int>(clip.frames.size());
  if (sampled.num_errors > 0) {
    clip.warnings.push_back(
        counted(sampled.num_errors, "damaged packet or frame", "damaged packets or frames"));
  }
  if (num_used < clip.frames_wanted) {
    const int num_missing = clip.frames_wanted - num_used;
    clip.warnings.push_back(
        std::to_string(num_missing) + " of " + counted(clip.frames_wanted, "sampled frame") +
        std::string(plural(num_missing, " is", " are")) + " damaged and left out");
  }
  if (index.is_cut_off) {
    clip.warnings.push_back("the file is cut off; its last packet is incomplete");
  } else if (index.missing_us > 0) {
    clip.warnings.push_back("the file seems cut off: its frames end " +
                            json_number(static_cast<double>(index.missing_us) / 1e6, 1) +
                            " s before the length that it declares");
  }
}

}  // namespace

OpenFile open_video(const std::filesystem::path& path) {
  try {
    return OpenFile(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotRegularFile) throw;
    throw Error(error.code(), std::string(error.what()) +
                                  "; name a video's file; what a FIFO gives is saved to one first");
  }
}

Clip read_clip(const std::filesystem::path& path, const ReadOptions& options) {
  require_valid(options);
  return read_clip(open_video(path), options);
}

void require_video(const OpenFile& file, const ReadOptions& options) {
  const StopCondition stop(options.limits.max_decode_us, options.cancelled);
  const Input input(file, OpenLimits{.max_pixels = options.limits.max_pixels}, stop);
}

Clip read_clip(const OpenFile& file, const ReadOptions& options) {
  require_valid(options);
  const StopCondition stop(options.limits.max_decode_us, options.cancelled);
  auto input =
      std::make_unique<Input>(file, OpenLimits{.max_pixels = options.limits.max_pixels}, stop);
  const std::string name = input->name();
  const std::string codec = avcodec_get_name(input->codec_parameters().codec_id);
  const FrameIndex index = build_frame_index(*input);
  if (index.is_encrypted) {
    throw Error(ErrorCode::kNoFrames, name + ": the video is encrypted; decrypt it first");
  }
  const ReadJob job{file, options, stop, index};
  SampledFrames sampled;
  if (index.is_trusted() && !index.shown.empty()) {
    sampled = read_indexed(job, std::move(input));
  } else if (!index.is_trusted() && !index.packets.empty()) {
    input.reset();
    sampled = read_through(job);
  }
  Clip clip = make_clip(name, sampled);
  if (clip.frames.empty()) {
    throw Error(ErrorCode::kNoFrames, name + ": no decodable frame among " +
                                          counted(std::ssize(index.packets), "packet") +
                                          " (codec " + codec + ")");
  }
  add_warnings(sampled, index, clip);
  return clip;
}

}  // namespace caption::video
