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
  std::int64_t max_pixels = 0;  // limit of one frame, also for every decoder of this file
  // kRefuse: opening a file with a larger frame throws. kShow: `inspect` can show its declared
  // size.
  enum class Oversized { kRefuse, kShow } oversized = Oversized::kRefuse;
};

// An open video file. The format is detected from the content alone: libav never learns the file's
// name, reads through the given descriptor, and may not open anything else (a playlist must not
// reach other files or the network).
//
// libav treats a failed read as the end of the file or as damage. The first failure is therefore
// stored, every later read fails too, and the function of Input that called libav throws it:
// Error(kIo), or Error(kOutOfMemory) when libav could not allocate memory.
class Input {
 public:
  // Reads the head of the file and selects the first video stream that is not a cover picture.
  // `file` and `stop` must outlive the Input; several Inputs may read one file. Throws as
  // read_clip().
  Input(const OpenFile& file, const OpenLimits& limits, const StopCondition& stop);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // Reads the next packet of the video stream; false at the end of the file, and where damage keeps
  // libav from reading further. Throws Error(kTimeout | kCancelled | kIo | kOutOfMemory).
  bool read(AVPacket& packet);

  // Seeks to the keyframe whose packet is given, or to a place before it; false when libav cannot.
  // Throws Error(kIo | kOutOfMemory).
  bool seek(std::int64_t pts, std::int64_t dts, std::int64_t position_bytes);

  // Length of the video stream as the container declares it, in microseconds; 0 when it declares
  // none, or one length for several streams, or libav only estimates it.
  std::int64_t declared_length_us() const;

  const AVFormatContext& format() const { return *format_; }
  const AVStream& stream() const { return *stream_; }
  const AVCodecParameters& codec_parameters() const { return *stream_->codecpar; }
  const std::string& name() const { return name_; }  // the path, for messages
  const OpenFile& file() const { return file_; }
  const OpenLimits& limits() const { return limits_; }
  const StopCondition& stop() const { return stop_; }

  // Throws Error(kTooLarge) with the sizes when a frame of this size exceeds the limit.
  void require_allowed_size(std::int64_t width_px, std::int64_t height_px) const;

 private:
  struct Source;

  // Call it after each libav function, before which errno was set to 0. Throws the failure of a
  // read if there was one, and Error(kOutOfMemory) when the allocator failed, also if libav
  // succeeded.
  void check() const;
  // Throws Error(kNotVideo) for a text that lists other media. Call it where the file is refused.
  void refuse_playlist() const;
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
