#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "video/internal/decoder.h"
#include "video/internal/packet_reader.h"
#include "video/internal/sampled_frames.h"
#include "video/internal/to_rgb.h"

namespace caption::video {
namespace {

// Visiting groups of pictures one by one is faster than decoding straight through when it decodes
// less than this share of the packets: each group costs extra, because it drains the decoder and so
// stalls its frame threads, or decodes past its last target (run_on).
constexpr double kWorthSeeking = 0.8;
// With one thread and closed groups neither cost exists, so every packet left out is a gain.
constexpr double kWorthSeekingOnOneThread = 1.0;
// Limit of the delay of a decoder: H.264 reorders at most 16 frames, and each decoder thread delays
// by one more.
constexpr std::int64_t kMaxDelayPackets = 32;

// Consecutive packets to decode, first and last included.
struct Run {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t num_packets() const { return last - first + 1; }
};

std::vector<Target> locate(std::vector<Target> targets, const FrameIndex& index) {
  for (Target& target : targets) {
    target.packet_idx = index.shown[static_cast<std::size_t>(target.frame_idx)];
    target.pts = index.packets[static_cast<std::size_t>(target.packet_idx)].pts;
  }
  return targets;
}

// One run per group of pictures that holds targets, ending at its last target; adjacent runs are
// merged.
std::vector<Run> plan_visits(const std::vector<Target>& targets, const FrameIndex& index) {
  std::vector<Run> visits;
  for (const Target& target : targets) {
    visits.push_back({index.decode_start(target.packet_idx), target.packet_idx});
  }
  std::sort(visits.begin(), visits.end(),
            [](const Run& a, const Run& b) { return a.first < b.first; });
  std::vector<Run> runs;
  for (const Run& visit : visits) {
    if (!runs.empty() && visit.first <= runs.back().last + 1) {
      runs.back().last = std::max(runs.back().last, visit.last);
    } else {
      runs.push_back(visit);
    }
  }
  return runs;
}

std::vector<Run> plan(SeekMode mode, const std::vector<Target>& targets, const FrameIndex& index,
                      int num_threads) {
  const std::vector<Run> visits = plan_visits(targets, index);
  const Run through{0, visits.back().last};
  std::int64_t num_visited = 0;
  for (const Run& visit : visits) num_visited += visit.num_packets();
  const double worth =
      num_threads == 1 && !index.has_leading_pictures ? kWorthSeekingOnOneThread : kWorthSeeking;
  const bool is_cheaper =
      static_cast<double>(num_visited) < worth * static_cast<double>(through.num_packets());
  const bool visit = mode == SeekMode::kAlways || (mode == SeekMode::kAuto && is_cheaper);
  return visit ? visits : std::vector<Run>{through};
}

// Settings of an attempt.
struct Way {
  SeekMode seek = SeekMode::kNever;
  Decoder::Unreferenced unreferenced = Decoder::Unreferenced::kDecode;
  Decoder::Damage damage = Decoder::Damage::kConceal;
  int num_threads = 1;
};

// One attempt to decode all targets. Unless the stream is damaged, attempts give the same frames
// and differ only in cost.
class Attempt {
 public:
  Attempt(const ReadJob& job, PacketReader& reader, std::vector<Target>& targets)
      : index_(job.index),
        reader_(reader),
        converter_(reader.input().stream(), reader.input().name(), job.options.color_matrix),
        targets_(targets) {
    for (Target& target : targets_) target.frame.reset();
    for (const Target& target : targets_) wanted_packets_.push_back(target.packet_idx);
    std::sort(wanted_packets_.begin(), wanted_packets_.end());
  }

  // Returns the number of damaged packets and frames.
  std::int64_t run(const std::vector<Run>& runs, const Way& way) {
    Decoder decoder(reader_.input(), way.num_threads, way.damage);
    for (const Run& run : runs) {
      const auto take = [&](AVFrame& frame) { keep_if_wanted(frame, run); };
      reader_.go_to(run.first);
      if (run.first > 0) decoder.expect_damage_before(packet(run.first).pts);
      for (std::int64_t idx = run.first; idx <= run.last; ++idx) {
        const bool is_wanted =
            std::binary_search(wanted_packets_.begin(), wanted_packets_.end(), idx);
        decoder.set_unreferenced(is_wanted ? Decoder::Unreferenced::kDecode : way.unreferenced);
        send_next(decoder, take);
      }
      if (run.first > 0 && is_late_to_recover(decoder)) run_on(decoder, run, take);
      decoder.drain(take);
    }
    return decoder.num_errors();
  }

 private:
  const PacketEntry& packet(std::int64_t idx) const {
    return index_.packets[static_cast<std::size_t>(idx)];
  }

  void send_next(Decoder& decoder, const Decoder::OnFrame& take) {
    reader_.read(*packet_);
    decoder.send(*packet_, take);
    av_packet_unref(packet_.get());
  }

  // libav's H.264 decoder returns the frames after the keyframe of an open group as undamaged only
  // after it has returned that keyframe, and not while it is drained.
  bool is_late_to_recover(const Decoder& decoder) const {
    return decoder.codec() == AV_CODEC_ID_H264 && index_.has_leading_pictures;
  }

  // Decodes packets after the run until its targets have been returned, at most kMaxDelayPackets.
  void run_on(Decoder& decoder, const Run& run, const Decoder::OnFrame& take) {
    decoder.set_unreferenced(Decoder::Unreferenced::kDecode);
    const auto is_missing = [&](const Target& target) {
      return belongs_to(target, run) && !target.frame.has_value();
    };
    const std::int64_t end = std::min(run.last + 1 + kMaxDelayPackets, std::ssize(index_.packets));
    for (std::int64_t idx = run.last + 1;
         idx < end && std::any_of(targets_.begin(), targets_.end(), is_missing); ++idx) {
      send_next(decoder, take);
    }
  }

  bool belongs_to(const Target& target, const Run& run) const {
    return target.packet_idx <= run.last && index_.decode_start(target.packet_idx) >= run.first;
  }

  // Frames are identified by their time, not by counting, because some were skipped. A leading
  // picture of a group at whose keyframe decoding began lacks its reference and is not taken.
  void keep_if_wanted(AVFrame& frame, const Run& run) {
    const std::int64_t pts = pts_of(frame);
    const auto target =
        std::lower_bound(targets_.begin(), targets_.end(), pts,
                         [](const Target& one, std::int64_t time) { return one.pts < time; });
    if (target == targets_.end() || target->pts != pts || target->frame.has_value()) return;
    if (!belongs_to(*target, run)) return;
    target->frame = converter_.convert(frame);
  }

  const FrameIndex& index_;
  PacketReader& reader_;
  RgbConverter converter_;
  std::vector<Target>& targets_;
  std::vector<std::int64_t> wanted_packets_;
  PacketPtr packet_ = make_packet();
};

}  // namespace

SampledFrames read_indexed(const ReadJob& job, std::unique_ptr<Input> input) {
  SampledFrames result;
  FrameTimes times(*input);
  for (const std::int64_t idx : job.index.shown) {
    times.add(job.index.packets[static_cast<std::size_t>(idx)].pts);
  }
  const std::int64_t last_duration = times.has_jumped() ? 0 : job.index.last_duration;
  result.timeline = make_timeline(times.sorted(), last_duration, input->stream());
  result.samples = sample_frames(job.options.sampling, result.timeline);
  result.targets = locate(make_targets(result.samples), job.index);

  PacketReader reader(std::move(input), job.index);
  const AVCodecID codec = reader.input().codec_parameters().codec_id;
  const auto attempt = [&](const Way& way) {
    const std::vector<Run> runs =
        plan(way.seek, result.targets, job.index, Decoder::threads_for(codec, way.num_threads));
    return Attempt(job, reader, result.targets).run(runs, way);
  };
  const auto skipping = job.options.seek == SeekMode::kNever ? Decoder::Unreferenced::kDecode
                                                             : Decoder::Unreferenced::kSkip;
  result.num_errors = attempt({.seek = job.options.seek,
                               .unreferenced = skipping,
                               .damage = Decoder::Damage::kReport,
                               .num_threads = job.options.num_threads});
  // If the stream is damaged or the index is wrong, everything is decoded again straight through by
  // one thread: concealment may depend on what was decoded before, and the frames must not depend
  // on how they were reached. num_errors becomes the larger count, because this pass conceals some
  // damage silently.
  if (result.num_errors > 0 || !result.is_complete()) {
    result.num_errors = std::max(attempt({}), result.num_errors);
  }
  return result;
}

}  // namespace caption::video
