#include "video/internal/av.h"

#include <mutex>

#include "base/error.h"
#include "video/read_clip.h"

namespace caption::video {

FramePtr make_frame() {
  FramePtr frame(av_frame_alloc());
  if (frame == nullptr) throw Error(ErrorCode::kOutOfMemory, "libav cannot allocate a frame");
  return frame;
}

PacketPtr make_packet() {
  PacketPtr packet(av_packet_alloc());
  if (packet == nullptr) throw Error(ErrorCode::kOutOfMemory, "libav cannot allocate a packet");
  return packet;
}

std::string av_reason(int error_number) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error_number, text, sizeof text);
  return text;
}

void silence_libav() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_QUIET); });
}

std::string library_versions() {
  const auto text = [](const char* name, unsigned version) {
    return std::string(name) + " " + std::to_string(AV_VERSION_MAJOR(version)) + "." +
           std::to_string(AV_VERSION_MINOR(version));
  };
  return text("libavcodec", avcodec_version()) + " " + text("libswscale", swscale_version());
}

std::string linked_libraries() {
  const auto text = [](const char* name, unsigned version) {
    return std::string(name) + " " + std::to_string(AV_VERSION_MAJOR(version)) + "." +
           std::to_string(AV_VERSION_MINOR(version)) + "." +
           std::to_string(AV_VERSION_MICRO(version));
  };
  return text("libavformat", avformat_version()) + ", " + text("libavcodec", avcodec_version()) +
         ", " + text("libavutil", avutil_version()) + ", " + text("libswscale", swscale_version());
}

}  // namespace caption::video
