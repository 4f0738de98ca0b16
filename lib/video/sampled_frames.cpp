#include "video/internal/sampled_frames.h"

#include <algorithm>

namespace caption::video {
namespace {

constexpr AVRational kMicroseconds{1, 1'000'000};
// Of a stream that declares no frame rate.
constexpr AVRational kUsualFrameRate{25, 1};

}  // namespace

bool SampledFrames::is_complete() const {
  return std::all_of(targets.begin(), targets.end(),
                     [](const Target& target) { return target.frame.has_value(); });
}

std::vector<Target> make_targets(const std::vector<std::int64_t>& samples) {
  std::vector<Target> targets;
  for (const std::int64_t sample : samples) {
    if (targets.empty() || targets.back().frame_idx != sample) {
      targets.emplace_back().frame_idx = sample;
    }
  }
  return targets;
}

AVRational frame_rate(const AVStream& stream) {
  const AVRational rate = stream.avg_frame_rate;
  return rate.num > 0 && rate.den > 0 ? rate : kUsualFrameRate;
}

Timeline make_timeline(const std::vector<std::int64_t>& pts, std::int64_t last_duration,
                       const AVStream& stream) {
  Timeline timeline;
  timeline.start_us.reserve(pts.size());
  for (const std::int64_t time : pts) {
    timeline.start_us.push_back(av_rescale_q(time - pts.front(), stream.time_base, kMicroseconds));
  }
  timeline.end_us = timeline.start_us.back();
  if (last_duration > 0) {
    timeline.end_us += av_rescale_q(last_duration, stream.time_base, kMicroseconds);
  } else if (pts.size() > 1) {  // as long as the frames before, on average
    timeline.end_us += timeline.end_us / static_cast<std::int64_t>(pts.size() - 1);
  } else {
    timeline.end_us += av_rescale_q(1, av_inv_q(frame_rate(stream)), kMicroseconds);
  }
  timeline.tolerance_us =
      std::max<std::int64_t>(1, av_rescale_q(1, stream.time_base, kMicroseconds) / 2);
  return timeline;
}

}  // namespace caption::video
