// video/read_clip.h: uniform sampling of frames from any file that libav can read.
//
// The chosen frames depend on the video alone: seeking, skipping and the number of threads change
// the time that decoding takes, not the frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/open_file.h"
#include "video/clip.h"

namespace caption::video {

// How frames are chosen; T is the number of frames in the stream, n the number wanted.
// Source: kArange is numpy.arange(0, T, T / n).astype(int), the sampling in the LLaVA-NeXT-Video
// documentation of transformers (docs/source/en/model_doc/llava_next_video.md); kLinspace is
// numpy.linspace(0, T - 1, n).astype(int).
enum class SamplingStrategy {
  kArange,    // int(i * T / n), i < n: used by LLaVA-NeXT-Video
  kLinspace,  // int(i * (T - 1) / (n - 1)): first and last frame included
  kInternVl,  // int(T / (2 n) + i * T / n): the middles of n equal parts, as InternVL samples
  // round(i * (T - 1) / (n - 1)), as Qwen3-VL samples: n is two per second, at least 4, at most
  // num_frames and T.
  kQwen3Vl,
  kFps,  // the frames shown at 0, 1/fps, 2/fps, ... seconds, at most n
};

struct SamplingOptions {
  SamplingStrategy strategy = SamplingStrategy::kArange;
  // 1..4096; for kFps and kQwen3Vl an upper bound, above which n are spread evenly.
  int num_frames = 8;
  double fps = 1.0;  // kFps only, > 0

  // Whether longer videos give more frames.
  bool is_by_length() const { return frames_per_second() > 0; }
  // The rate of kFps and kQwen3Vl, as long as num_frames allows it; 0 for the others.
  double frames_per_second() const {
    if (strategy == SamplingStrategy::kQwen3Vl) return 2.0;
    return strategy == SamplingStrategy::kFps ? fps : 0.0;
  }
};

// Whether decoding may seek to the groups of pictures that hold the frames. kAuto seeks when that
// is cheaper. The frames are the same in all three modes.
enum class SeekMode { kAuto, kAlways, kNever };

// The colour matrix of pictures whose file does not specify one; a specified matrix is always used.
enum class ColorMatrix {
  // BT.601 at every size: the default of ffmpeg, PyAV and OpenCV, which decode training data.
  kAuto,
  kBt601,  // ITU-R BT.601 at every size
  kBt709,  // ITU-R BT.709, as players assume for untagged video of 720 lines and more
};

struct ReadLimits {
  std::int64_t max_pixels = 64LL << 20;      // limit of one frame, checked before decoding
  std::int64_t max_decode_us = 120'000'000;  // wall time limit of one clip
};

struct ReadOptions {
  SamplingOptions sampling = {};
  ReadLimits limits = {};
  SeekMode seek = SeekMode::kAuto;
  ColorMatrix color_matrix = ColorMatrix::kAuto;
  // Decoder threads for this clip. Only HEVC, VP9, AV1, MJPEG, ProRes and DNxHD use more than one:
  // with libav's frame threads it would depend on timing which damaged frames of other codecs are
  // detected.
  int num_threads = 1;
  // Reading stops soon after it becomes true, with Error(kCancelled). May be null.
  const std::atomic<bool>* cancelled = nullptr;
};

// The forms of a sampling, for help and messages: "arange", ..., "fps=F".
std::vector<std::string> sampling_forms();
// Parses a text of one of these forms, with a number for F: "fps=2.5". Throws Error(kUsage): for
// any other text with the forms, and for num_frames out of range.
SamplingOptions parse_sampling(std::string_view text, int num_frames);
// The one text of a sampling that stands for all texts which parse_sampling() reads as it: "fps=2"
// for "fps=2.0".
std::string sampling_text(const SamplingOptions& options);

// Decodes the sampled frames of `file`. Every byte is read through its descriptor, so renaming or
// replacing the path meanwhile has no effect. The format is detected from the content alone, never
// from the name; no other file is opened, whatever a playlist inside refers to. Still pictures are
// rejected.
//
// Frames are counted by their packets. When a file is cut off, the readable part is sampled, with a
// warning if the container declares a greater length. Frames that an edit list hides do not count.
// When packets do not correspond to frames (interlaced fields, AVI without times, times of decoding
// in place of those of presentation, ...), frames are counted by decoding. In formats whose times
// may jump (joined MPEG-TS files), a step back of more than 0.1 s or ahead of more than 10 s is
// replaced by the duration of one frame, so durations and times are those of playback. A sampled
// frame that is damaged is left out, not replaced: the clip then has fewer frames than
// frames_wanted, and a warning. If the stream has fewer frames than wanted, frames repeat as in
// numpy.arange. A damaged stream is decoded completely, on one thread.
//
// Throws Error: kUsage (sampling out of range), kNotVideo (libav does not recognise the content),
// kNoVideoStream (audio or cover picture only), kNoFrames (none can be decoded, or the video is
// encrypted), kTooLarge (with the pixels; from the declared size, before decoding), kTimeout,
// kCancelled, kDecode (a picture that cannot be converted to RGB, or the file changed while it was
// read), kIo (the system could not read a byte; this is never treated as the end of the file or as
// damage) and kOutOfMemory. Thread-safe.
Clip read_clip(const OpenFile& file, const ReadOptions& options);

// Throws as read_clip() does for a file without a video stream, after reading its first bytes only;
// no frame is decoded for the caller. Thread-safe.
void require_video(const OpenFile& file, const ReadOptions& options);

// Opens a video. Throws as OpenFile does, with what to do about a path that is no regular file.
OpenFile open_video(const std::filesystem::path& path);

// Opens the file with open_video() and reads it. Throws as read_clip() above does, too.
Clip read_clip(const std::filesystem::path& path, const ReadOptions& options);

// Properties of a video file for `inspect`; most are declared, those of the first video stream that
// is not a cover picture.
struct Probe {
  std::string container;
  std::string codec;
  std::string pixel_format;
  std::string colour;  // "tv bt709", ...
  int width_px = 0;    // coded size
  int height_px = 0;
  int display_width_px = 0;  // size after rotation and sample aspect ratio
  int display_height_px = 0;
  int rotation_degrees = 0;      // clockwise: 0, 90, 180 or 270
  double fps = 0;                // average, 0 when unknown
  std::int64_t duration_us = 0;  // declared, 0 when absent
  std::int64_t num_frames = 0;   // counted by demuxing, not decoding
  std::int64_t num_keyframes = 0;
  std::int64_t file_bytes = 0;
};

// Demuxes the file once without decoding. Throws as read_clip(), but accepts an oversized or a
// damaged video that read_clip() rejects. Thread-safe.
Probe probe(const OpenFile& file);
Probe probe(const std::filesystem::path& path);

// Versions of the libraries on which pixel values depend: "libavcodec 59.37 libswscale 6.7".
std::string library_versions();
// Versions of all loaded FFmpeg libraries: "libavformat 59.27.100, libavcodec 59.37.100, ...".
std::string linked_libraries();

}  // namespace caption::video
