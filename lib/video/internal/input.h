// video/internal/input.h: one open file and the packets of its video stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "video/internal/av.h"
#include "video/internal/stop_condition.h"

namespace caption::video {

struct OpenLimits {
  std::int64_t max_pixels = 0;  // of one frame, for every decoder opened on this file
  // `inspect` shows what a file declares; reading refuses it at the door.
  enum class Oversized { kRefuse, kShow } oversized = Oversized::kRefuse;
};

// The format is found by content alone: libav never learns the file's name, reads through our own
// descriptor, and may open nothing else (a playlist must not reach other files or the network).
class Input {
 public:
  // Opens the file and finds the first video stream that is no cover picture. `stop` must outlive
  // the Input. Throws as read_clip.
  Input(const std::filesystem::path& path, const OpenLimits& limits, const StopCondition& stop);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // The next packet of the video stream, or false at the end of what can be read. Throws
  // Error(kTimeout | kCancelled).
  bool read(AVPacket& packet);

  // Moves the reader to or before the keyframe whose packet is given; false when libav cannot.
  bool seek(std::int64_t pts, std::int64_t dts, std::int64_t position_bytes);

  AVFormatContext& format() { return *format_; }
  AVStream& stream() { return *stream_; }
  const AVCodecParameters& codec_parameters() const { return *stream_->codecpar; }
  const std::string& name() const { return name_; }  // of the path, for messages
  std::int64_t file_bytes() const { return file_bytes_; }
  const OpenLimits& limits() const { return limits_; }
  const StopCondition& stop() const { return stop_; }

  // Throws Error(kTooLarge) with the numbers when a frame of this size passes the limit.
  void require_allowed_size(std::int64_t width_px, std::int64_t height_px) const;

 private:
  struct File;

  void open_format();
  void find_streams();
  void choose_stream();

  std::string name_;
  OpenLimits limits_;
  const StopCondition& stop_;
  std::unique_ptr<File> file_;
  std::int64_t file_bytes_ = 0;
  IoPtr io_;
  FormatPtr format_;
  AVStream* stream_ = nullptr;
};

}  // namespace caption::video
