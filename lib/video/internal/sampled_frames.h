// video/internal/sampled_frames.h: the two ways to decode the sampled frames of a file.
#pragma once

#include <cstddef>
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

// One wanted frame; a frame that is sampled several times has one Target.
struct Target {
  std::int64_t frame_idx = 0;
  std::int64_t pts = 0;         // in the stream's time base
  std::int64_t packet_idx = 0;  // position in FrameIndex::packets
  std::optional<Frame> frame;   // empty when damaged; only size and rgb are filled in
};

struct SampledFrames {
  Timeline timeline;
  std::vector<std::int64_t> samples;  // result of sample_frames(), with repetitions
  std::vector<Target> targets;        // ascending by frame_idx
  std::int64_t num_errors = 0;        // number of damaged packets and frames that were decoded

  bool is_complete() const;
};

// Arguments of read_indexed() and read_through(); the references outlive the call.
struct ReadJob {
  const OpenFile& file;
  const ReadOptions& options;
  const StopCondition& stop;
  const FrameIndex& index;
};

// For a trusted index: decodes only the groups of pictures that contain wanted frames, where that
// is cheaper. `input` must be at its end, as build_frame_index() leaves it.
SampledFrames read_indexed(const ReadJob& job, std::unique_ptr<Input> input);

// For any stream: decodes it twice, first to count the frames, then up to the last wanted one to
// convert the wanted ones (one pass would have to keep all frames). Returns no targets when no
// frame can be decoded.
SampledFrames read_through(const ReadJob& job);

// The samples without repetitions, as Targets of which only frame_idx is set.
std::vector<Target> make_targets(const std::vector<std::int64_t>& samples);

// The declared average frame rate; 25 per second when none is declared.
AVRational frame_rate(const AVStream& stream);

// Collects the presentation times of successive frames. Frames without a time divide the time
// between their neighbours evenly; those before the first known time follow at the duration of a
// frame, and those after the last at the mean duration since the last jump. In formats whose times
// may restart (joined MPEG-TS files), a jump is replaced by the duration of the frame before the
// last. Times that are out of order otherwise are sorted: a file that stores the times of decoding
// gives each time once, but not to the right frame.
class FrameTimes {
 public:
  explicit FrameTimes(Input& input);

  // Adds the time of the next frame in the stream's time base; AV_NOPTS_VALUE when unknown.
  void add(std::int64_t pts);
  // The corrected times, non-decreasing, in the stream's time base.
  std::vector<std::int64_t> sorted() const;
  bool is_empty() const { return pts_.empty(); }
  // True after a jump; libav's estimates of the frame rate and of a packet's duration are then
  // wrong.
  bool has_jumped() const { return has_jumped_; }

 private:
  bool is_jump(std::int64_t time) const;
  // Sets the times of the frames between two known ones, or outside of them.
  void fill_undated(std::vector<std::int64_t>& times) const;
  // The mean duration of a frame since the last jump, in ticks. That of a single frame may be
  // wrong: libav's parser gives the last time of a program stream to two pictures, of which the
  // first begins in an earlier packet.
  std::int64_t mean_ticks() const;

  bool may_jump_;
  bool has_jumped_ = false;
  std::int64_t longest_step_;            // in ticks; a longer step ahead is a jump
  std::int64_t longest_return_;          // in ticks; a longer step back is a jump
  std::int64_t first_ticks_;             // in ticks; duration of the frames before known times
  std::int64_t frame_ticks_;             // in ticks; duration of the frame before the last
  std::int64_t shift_ = 0;               // in ticks; correction of the stream's times after jumps
  std::vector<std::int64_t> pts_;        // in the order of the frames, with AV_NOPTS_VALUE
  std::vector<std::size_t> dated_ = {};  // positions in pts_ of the known times
  std::size_t last_start_ = 0;           // index in dated_ of the first time after the last jump
};

// `pts` has the form of FrameTimes::sorted(); a last_duration of 0 means unknown. The timeline ends
// where the declared frame rate says, if that is within the error of the stream's clock.
Timeline make_timeline(const std::vector<std::int64_t>& pts, std::int64_t last_duration,
                       const AVStream& stream);

}  // namespace caption::video
