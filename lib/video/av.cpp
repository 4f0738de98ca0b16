#include "video/internal/av.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
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

// The allocator sets errno where it fails. glibc's also does where no address space is left for the
// heap of the thread, and then succeeds in another way, for each block; so errno says nothing where
// a block that was to be had leaves it set.
bool has_lacked_memory() {
  if (errno != ENOMEM) return false;
  constexpr std::size_t kBytes = 16 << 10;  // neither from the thread's cache nor mapped by itself
  errno = 0;
  void* volatile block = std::malloc(kBytes);
  const bool says_nothing = block != nullptr && errno == ENOMEM;
  std::free(block);
  return !says_nothing;
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
