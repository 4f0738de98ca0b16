#include "video/internal/sampled_frames.h"

#include <algorithm>
#include <cstdlib>

namespace caption::video {
namespace {

constexpr AVRational kMicroseconds{1, 1'000'000};
// Frame rate of a stream that declares none.
constexpr AVRational kUsualFrameRate{25, 1};
// Limits of a discontinuity, as in ffmpeg: a step ahead of more than its default
// -dts_delta_threshold (10 s), or a step back of more than a tenth of a second.
constexpr AVRational kLongestStepSeconds{10, 1};
constexpr AVRational kLongestReturnSeconds{1, 10};

std::int64_t to_ticks(AVRational seconds, const AVStream& stream) {
  return std::max<std::int64_t>(1, av_rescale_q(1, seconds, stream.time_base));
}

// The end of the timeline as the number of frames and the declared rate give it, if both are within
// the error of the stream's clock, else the timeline's own. Matroska counts whole milliseconds and
// rounds the duration of the last frame down, so that 96 frames at 24 a second would end 1 ms
// before 4 s.
std::int64_t sharpen_end(const Timeline& timeline, const AVStream& stream) {
  const AVRational rate = stream.avg_frame_rate;
  if (rate.num <= 0 || rate.den <= 0) return timeline.end_us;
  const std::int64_t by_rate = av_rescale_q(timeline.num_frames(), av_inv_q(rate), kMicroseconds);
  // Half a tick for the start of the last frame, a whole one for its duration.
  const std::int64_t error_us = 3 * timeline.tolerance_us;
  return std::abs(by_rate - timeline.end_us) <= error_us ? by_rate : timeline.end_us;
}

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

FrameTimes::FrameTimes(Input& input)
    : may_jump_((input.format().iformat->flags & AVFMT_TS_DISCONT) != 0),
      longest_step_(to_ticks(kLongestStepSeconds, input.stream())),
      longest_return_(to_ticks(kLongestReturnSeconds, input.stream())),
      frame_ticks_(to_ticks(av_inv_q(frame_rate(input.stream())), input.stream())) {}

bool FrameTimes::is_jump(std::int64_t step) const {
  return may_jump_ && (step > longest_step_ || step < -longest_return_);
}

void FrameTimes::date_back() {
  for (auto i = static_cast<std::size_t>(num_undated_); i > 0; --i) {
    pts_[i - 1] = pts_[i] - frame_ticks_;
  }
}

void FrameTimes::add(std::int64_t pts) {
  if (!has_time_) {
    if (pts == AV_NOPTS_VALUE) {
      pts_.push_back(frame_ticks_ * std::ssize(pts_));
      return;
    }
    has_time_ = true;
    num_undated_ = std::ssize(pts_);
    pts_.push_back(pts);
    date_back();
    return;
  }
  const std::int64_t last = pts_.back();
  if (pts == AV_NOPTS_VALUE) {
    pts_.push_back(last + frame_ticks_);
    return;
  }
  const std::int64_t step = pts + shift_ - last;
  if (is_jump(step)) {
    shift_ += frame_ticks_ - step;
    has_jumped_ = true;
  } else if (step > 0) {
    frame_ticks_ = step;
    // The declared rate may be libav's estimate, which the missing times spoil.
    if (std::ssize(pts_) == num_undated_ + 1) date_back();
  }
  pts_.push_back(std::max(last, pts + shift_));
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
  } else if (pts.size() > 1) {  // the mean duration of the frames before
    timeline.end_us += timeline.end_us / static_cast<std::int64_t>(pts.size() - 1);
  } else {
    timeline.end_us += av_rescale_q(1, av_inv_q(frame_rate(stream)), kMicroseconds);
  }
  timeline.tolerance_us =
      std::max<std::int64_t>(1, av_rescale_q(1, stream.time_base, kMicroseconds) / 2);
  timeline.end_us = sharpen_end(timeline, stream);
  return timeline;
}

}  // namespace caption::video
