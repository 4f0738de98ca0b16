// video/codecs.h: which video codecs this FFmpeg can decode. Some distributions leave codecs out.
#pragma once

#include <string_view>
#include <vector>

namespace caption::video {

struct CodecSupport {
  std::string_view name;     // "H.264"
  bool is_widespread;        // true for the codecs of most films of the last ten years
  bool has_decoder = false;  // whether there is a decoder that runs on the CPU
};

// The codecs commonly found in video archives, the widespread ones first. Thread-safe.
std::vector<CodecSupport> codec_support();

}  // namespace caption::video
