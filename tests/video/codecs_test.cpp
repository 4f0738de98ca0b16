#include "video/codecs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

extern "C" {
#include <libavcodec/avcodec.h>
}

namespace caption::video {
namespace {

bool supports(std::string_view name) {
  const std::vector<CodecSupport> support = codec_support();
  const auto found = std::find_if(support.begin(), support.end(),
                                  [&](const CodecSupport& codec) { return codec.name == name; });
  return found != support.end() && found->has_decoder;
}

TEST_SUITE("video/codecs") {
  TEST_CASE("a codec has a decoder exactly where libav finds one") {
    CHECK(supports("H.264") == (avcodec_find_decoder(AV_CODEC_ID_H264) != nullptr));
    CHECK(supports("HEVC") == (avcodec_find_decoder(AV_CODEC_ID_HEVC) != nullptr));
    CHECK(supports("FFV1") == (avcodec_find_decoder(AV_CODEC_ID_FFV1) != nullptr));
    CHECK_FALSE(supports("no such codec"));
  }

  TEST_CASE("AV1 counts with a software decoder only") {
    const bool has_software = avcodec_find_decoder_by_name("libdav1d") != nullptr ||
                              avcodec_find_decoder_by_name("libaom-av1") != nullptr ||
                              avcodec_find_decoder_by_name("libgav1") != nullptr;
    CHECK(supports("AV1") == has_software);
  }

  TEST_CASE("those of the samples are the widespread ones, and come first") {
    const std::vector<CodecSupport> support = codec_support();
    REQUIRE(support.size() > 4);
    for (std::size_t i = 0; i < support.size(); ++i) {
      CAPTURE(std::string(support[i].name));
      CHECK(support[i].is_widespread == (i < 4));
    }
  }
}

}  // namespace
}  // namespace caption::video
