#include "video/codecs.h"

#include <array>

#include "video/internal/av.h"

namespace caption::video {
namespace {

struct KnownCodec {
  AVCodecID id;
  std::string_view name;
  bool is_widespread;
};

constexpr std::array kCodecs = std::to_array<KnownCodec>({
    {AV_CODEC_ID_H264, "H.264", true},
    {AV_CODEC_ID_HEVC, "HEVC", true},
    {AV_CODEC_ID_VP9, "VP9", true},
    {AV_CODEC_ID_AV1, "AV1", true},
    {AV_CODEC_ID_VP8, "VP8", false},
    {AV_CODEC_ID_MPEG4, "MPEG-4", false},
    {AV_CODEC_ID_MPEG2VIDEO, "MPEG-2", false},
    {AV_CODEC_ID_MPEG1VIDEO, "MPEG-1", false},
    {AV_CODEC_ID_MJPEG, "Motion JPEG", false},
    {AV_CODEC_ID_VC1, "VC-1", false},
    {AV_CODEC_ID_PRORES, "ProRes", false},
    {AV_CODEC_ID_DNXHD, "DNxHD", false},
    {AV_CODEC_ID_FFV1, "FFV1", false},
});

// libav's decoder named "av1" needs hardware that decodes AV1; avcodec_find_decoder() prefers
// libdav1d and libaom where they are built in.
bool has_decoder(AVCodecID id) {
  const AVCodec* const codec = avcodec_find_decoder(id);
  return codec != nullptr && !(id == AV_CODEC_ID_AV1 && std::string_view(codec->name) == "av1");
}

}  // namespace

std::vector<CodecSupport> codec_support() {
  std::vector<CodecSupport> support;
  for (const KnownCodec& codec : kCodecs) {
    support.push_back({.name = codec.name,
                       .is_widespread = codec.is_widespread,
                       .has_decoder = has_decoder(codec.id)});
  }
  return support;
}

}  // namespace caption::video
