// video/internal/sampled_frames.h: the two ways from a file to its sampled frames.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/open_file.h"
#include "video/clip.h"
#include "video/internal/frame_index.h"
#include "video/internal/input.h"
#include "video/internal/sample_frames.h"
#include "video/read_clip.h"

namespace caption::video {

// One wanted frame; it stands here once, however often it is sampled.
struct Target {
  std::int64_t frame_idx = 0;
  std::int64_t pts = 0;         // stream time base
  std::int64_t packet_idx = 0;  // in the index
  std::optional<Frame> frame;   // empty when damaged; only size and rgb are set
};

struct SampledFrames {
  Timeline timeline;
  std::vector<std::int64_t> samples;  // what sample_frames() chose, with repetitions
  std::vector<Target> targets;        // ascending
  std::int64_t num_errors = 0;        // damaged packets and frames met on the way

  bool is_complete() const;
};

// What both ways need; the references outlive the call.
struct ReadJob {
  const OpenFile& file;
  const ReadOptions& options;
  const StopCondition& stop;
  const FrameIndex& index;
};

// For a trusted index: visits the groups of pictures that hold wanted frames. `input` stands at its
// end, as build_frame_index leaves it.
SampledFrames read_indexed(const ReadJob& job, std::unique_ptr<Input> input);

// For any stream: decodes everything twice, to count the frames and to take the wanted ones (one
// pass would have to keep all frames). Gives no targets when no frame can be decoded.
SampledFrames read_through(const ReadJob& job);

// The samples without repetitions, as targets with only frame_idx set.
std::vector<Target> make_targets(const std::vector<std::int64_t>& samples);

// Of the declaration; 25 per second where there is none.
AVRational frame_rate(const AVStream& stream);

// `pts` ascending, in the stream's time base; a last duration of 0 means unknown.
Timeline make_timeline(const std::vector<std::int64_t>& pts, std::int64_t last_duration,
                       const AVStream& stream);

}  // namespace caption::video
