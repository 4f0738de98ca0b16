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

// The times of frames in the order shown, as one line that ascends. A frame without a time follows
// the frame before it, and none is shown before its predecessor. In formats whose times may start
// anew (MPEG-TS files that were joined), a jump is no time that anybody watches: the frame before
// it is shown as long as the one before that.
class FrameTimes {
 public:
  explicit FrameTimes(Input& input);

  // In the stream's time base; AV_NOPTS_VALUE when unknown.
  void add(std::int64_t pts);
  // Ascending, in the stream's time base.
  const std::vector<std::int64_t>& pts() const { return pts_; }
  // Then libav's guesses of the frame rate and of a packet's duration are wrong too.
  bool has_jumped() const { return has_jumped_; }

 private:
  bool is_jump(std::int64_t step) const;

  bool may_jump_;
  bool has_jumped_ = false;
  std::int64_t longest_step_;    // of a picture that stays, in ticks
  std::int64_t longest_return_;  // of times that are only out of order, in ticks
  std::int64_t frame_ticks_;     // how long the frame before the last was shown
  std::int64_t shift_ = 0;       // added to the stream's times since the last jump
  std::vector<std::int64_t> pts_;
};

// `pts` as of FrameTimes; a last duration of 0 means unknown.
Timeline make_timeline(const std::vector<std::int64_t>& pts, std::int64_t last_duration,
                       const AVStream& stream);

}  // namespace caption::video
