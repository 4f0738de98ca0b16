#include <algorithm>
#include <cstddef>
#include <iterator>

#include "video/internal/decoder.h"
#include "video/internal/sampled_frames.h"
#include "video/internal/to_rgb.h"

namespace caption::video {
namespace {

// Decodes a file from its start, at most as many packets as the index has.
class Pass {
 public:
  Pass(const ReadJob& job, int num_threads)
      : input_(job.file, {.max_pixels = job.options.limits.max_pixels}, job.stop),
        decoder_(input_, num_threads, Decoder::Damage::kConceal),
        num_packets_(std::ssize(job.index.packets)) {}

  // Calls `on_frame` for every undamaged frame in presentation order, until is_done() returns true.
  void run(const Decoder::OnFrame& on_frame, const std::function<bool()>& is_done) {
    const PacketPtr packet = make_packet();
    for (std::int64_t i = 0; i < num_packets_ && !is_done() && input_.read(*packet); ++i) {
      decoder_.send(*packet, on_frame);
      av_packet_unref(packet.get());
    }
    if (!is_done()) decoder_.drain(on_frame);
  }

  Input& input() { return input_; }
  std::int64_t num_errors() const { return decoder_.num_errors(); }

 private:
  Input input_;
  Decoder decoder_;
  std::int64_t num_packets_;
};

}  // namespace

SampledFrames read_through(const ReadJob& job) {
  SampledFrames result;
  int num_threads = std::max(1, job.options.num_threads);
  {
    Pass count(job, num_threads);
    FrameTimes times(count.input());
    const auto count_frame = [&times](const AVFrame& frame) { times.add(pts_of(frame)); };
    const auto never = [] { return false; };
    count.run(count_frame, never);
    result.num_errors = count.num_errors();
    // As in read_indexed(): the frames of a damaged stream must not depend on the number of
    // threads.
    if (result.num_errors > 0 && num_threads > 1) {
      ReadOptions single = job.options;
      single.num_threads = 1;
      return read_through({job.file, single, job.stop, job.index});
    }
    if (times.is_empty()) return result;
    result.timeline = make_timeline(times.sorted(), 0, count.input().stream());
  }
  result.samples = sample_frames(job.options.sampling, result.timeline);
  result.targets = make_targets(result.samples);

  Pass take(job, num_threads);
  RgbConverter converter(take.input().stream(), job.file.path().string(), job.options.color_matrix);
  std::int64_t frame_idx = 0;
  std::size_t next_target = 0;
  const auto take_frame = [&](const AVFrame& frame) {
    if (next_target < result.targets.size() && result.targets[next_target].frame_idx == frame_idx) {
      result.targets[next_target++].frame = converter.convert(frame);
    }
    ++frame_idx;
  };
  take.run(take_frame, [&] { return next_target == result.targets.size(); });
  return result;
}

}  // namespace caption::video
