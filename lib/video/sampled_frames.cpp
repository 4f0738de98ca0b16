#include "video/internal/sampled_frames.h"

#include <algorithm>
#include <cstddef>
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
// Successive wrong times that are not taken for a discontinuity.
constexpr std::size_t kMaxWrongTimes = 4;

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
      first_ticks_(to_ticks(av_inv_q(frame_rate(input.stream())), input.stream())),
      frame_ticks_(first_ticks_) {}

// A step back that stays after the known time kMaxWrongTimes before is no restart: the times
// between were wrong, as those are that libav's parser takes from the neighbouring packet of an
// MPEG stream.
bool FrameTimes::is_jump(std::int64_t time) const {
  if (!may_jump_ || dated_.empty()) return false;
  const std::int64_t step = time - pts_[dated_.back()];
  if (step >= 0) return step > longest_step_;
  const std::size_t back = std::min(dated_.size() - 1, kMaxWrongTimes);
  return step < -longest_return_ && time <= pts_[dated_[dated_.size() - 1 - back]];
}

void FrameTimes::add(std::int64_t pts) {
  const std::size_t position = pts_.size();
  if (pts == AV_NOPTS_VALUE) {
    pts_.push_back(AV_NOPTS_VALUE);
    return;
  }
  if (!dated_.empty()) {
    const auto num_frames = static_cast<std::int64_t>(position - dated_.back());
    const std::int64_t last = pts_[dated_.back()];
    if (is_jump(pts + shift_)) {
      shift_ = last + num_frames * frame_ticks_ - pts;
      has_jumped_ = true;
      last_start_ = dated_.size();
    } else if (pts + shift_ > last) {
      frame_ticks_ = std::max<std::int64_t>(1, (pts + shift_ - last) / num_frames);
      // The declared rate may be libav's estimate, which the missing times spoil.
      if (dated_.size() == 1) first_ticks_ = frame_ticks_;
    }
  }
  dated_.push_back(position);
  pts_.push_back(pts + shift_);
}

void FrameTimes::fill_undated(std::vector<std::int64_t>& times) const {
  const std::size_t first = dated_.empty() ? 0 : dated_.front();
  if (dated_.empty() && !times.empty()) times[0] = 0;
  for (std::size_t i = first; i > 0; --i) times[i - 1] = times[i] - first_ticks_;
  for (std::size_t d = 1; d < dated_.size(); ++d) {
    const std::size_t from = dated_[d - 1], to = dated_[d];
    for (std::size_t i = from + 1; i < to; ++i) {
      times[i] =
          times[from] + av_rescale(times[to] - times[from], static_cast<std::int64_t>(i - from),
                                   static_cast<std::int64_t>(to - from));
    }
  }
  const std::size_t last = dated_.empty() ? 0 : dated_.back();
  const std::int64_t mean = mean_ticks();
  for (std::size_t i = last + 1; i < times.size(); ++i) times[i] = times[i - 1] + mean;
}

std::int64_t FrameTimes::mean_ticks() const {
  if (last_start_ + 1 >= dated_.size()) return frame_ticks_;
  const std::size_t from = dated_[last_start_], to = dated_.back();
  const std::int64_t mean = (pts_[to] - pts_[from]) / static_cast<std::int64_t>(to - from);
  return mean > 0 ? mean : frame_ticks_;
}

std::vector<std::int64_t> FrameTimes::sorted() const {
  std::vector<std::int64_t> times = pts_;
  fill_undated(times);
  std::sort(times.begin(), times.end());
  return times;
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
  const AVRational rate = stream.avg_frame_rate;
  if (rate.num > 0 && rate.den > 0) timeline.declared_fps = av_q2d(rate);
  return timeline;
}

}  // namespace caption::video
