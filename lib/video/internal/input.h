// video/internal/input.h: one open file and the packets of its video stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/open_file.h"
#include "video/internal/av.h"
#include "video/internal/stop_condition.h"

namespace caption::video {

struct OpenLimits {
  std::int64_t max_pixels = 0;  // of one frame, for every decoder opened on this file
  // `inspect` shows what a file declares; reading refuses it at the door.
  enum class Oversized { kRefuse, kShow } oversized = Oversized::kRefuse;
};

// The format is found by content alone: libav never learns the file's name, reads through the
// descriptor that it is given, and may open nothing else (a playlist must not reach other files or
// the network).
//
// libav takes a read that failed for the end of the file, or for damage. So the first failure is
// kept, every read after it fails alike, and whatever libav makes of it becomes the Error of the
// read: Error(kIo) from every function that reads, and Error(kOutOfMemory) where libav had no
// memory.
class Input {
 public:
  // Reads the head of the file and finds the first video stream that is no cover picture. `file`
  // and `stop` must outlive the Input; several Inputs may read one file. Throws as read_clip.
  Input(const OpenFile& file, const OpenLimits& limits, const StopCondition& stop);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // The next packet of the video stream, or false at the end of the file and where the file is so
  // damaged that libav reads no further. Throws Error(kTimeout | kCancelled | kIo | kOutOfMemory).
  bool read(AVPacket& packet);

  // Moves the reader to or before the keyframe whose packet is given; false when libav cannot.
  // Throws Error(kIo | kOutOfMemory).
  bool seek(std::int64_t pts, std::int64_t dts, std::int64_t position_bytes);

  // What the container declares as the length of the video stream, microseconds. 0 where it
  // declares none, or one length for all of several streams, or libav only estimates it.
  std::int64_t declared_length_us() const;

  const AVFormatContext& format() const { return *format_; }
  const AVStream& stream() const { return *stream_; }
  const AVCodecParameters& codec_parameters() const { return *stream_->codecpar; }
  const std::string& name() const { return name_; }  // of the path, for messages
  const OpenFile& file() const { return file_; }
  const OpenLimits& limits() const { return limits_; }
  const StopCondition& stop() const { return stop_; }

  // Throws Error(kTooLarge) with the numbers when a frame of this size passes the limit.
  void require_allowed_size(std::int64_t width_px, std::int64_t height_px) const;

 private:
  struct Source;

  // To be called with what a function of libav returned, errno having been 0 before. Throws the
  // failure of a read if there was one, and Error(kOutOfMemory) when the allocator failed.
  void check(int status) const;
  void open_format();
  void find_streams();
  void choose_stream();

  const OpenFile& file_;
  std::string name_;
  OpenLimits limits_;
  const StopCondition& stop_;
  std::unique_ptr<Source> source_;
  IoPtr io_;
  FormatPtr format_;
  AVStream* stream_ = nullptr;
};

}  // namespace caption::video
