#include "video/clip.h"

#include "base/counted.h"

namespace caption::video {

std::string describe_few_frames(const Clip& clip) {
  if (clip.total_frames <= 0 || clip.total_frames >= clip.frames_wanted) return {};
  return counted(clip.total_frames, "frame") + " in the whole film; " +
         std::to_string(clip.frames_wanted) + " were wanted, so frames repeat";
}

}  // namespace caption::video
