// video/codecs.h: which codecs of films this FFmpeg can decode. Distributions leave some out.
#pragma once

#include <string_view>
#include <vector>

namespace caption::video {

struct CodecSupport {
  std::string_view name;     // "H.264"
  bool is_widespread;        // most films of the last ten years use one of these
  bool has_decoder = false;  // one that runs on the CPU
};

// The codecs that archives hold, the widespread ones first. Thread-safe.
std::vector<CodecSupport> codec_support();

}  // namespace caption::video
