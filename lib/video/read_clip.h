// video/read_clip.h: uniform sampling of frames from any file libav can read.
//
// Which frames are chosen is a function of the video alone: seeking, skipping and the number of
// threads change the time it takes, never the frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/open_file.h"
#include "video/clip.h"

namespace caption::video {

// With T frames in the stream and n wanted (models.md §1.6):
enum class SamplingStrategy {
  kArange,    // int(i * T / n), i < n: LLaVA-NeXT-Video's
  kLinspace,  // int(i * (T - 1) / (n - 1)): first and last frame included
  kFps,       // the frames shown at 0, 1/fps, 2/fps, ... seconds, at most num_frames
};

struct SamplingOptions {
  SamplingStrategy strategy = SamplingStrategy::kArange;
  int num_frames = 8;  // 1..4096; for kFps an upper bound: beyond it, num_frames of them uniformly
  double fps = 1.0;    // kFps only, > 0
};

// How frames are reached; the frames are the same for all three.
enum class SeekMode { kAuto, kAlways, kNever };

// The colour matrix of pictures whose file does not name one; a named one is always kept.
enum class ColorMatrix {
  kAuto,   // BT.601 at every size: the default of ffmpeg, PyAV and OpenCV, with whose pixels models
           // were trained
  kBt601,  // ITU-R BT.601, whatever kAuto may mean
  kBt709,  // ITU-R BT.709, as players take untagged video of 720 lines and more
};

struct ReadLimits {
  std::int64_t max_pixels = 64LL << 20;      // of one frame, checked before decoding
  std::int64_t max_decode_us = 120'000'000;  // wall time for one clip
};

struct ReadOptions {
  SamplingOptions sampling = {};
  ReadLimits limits = {};
  SeekMode seek = SeekMode::kAuto;
  ColorMatrix color_matrix = ColorMatrix::kAuto;
  // Decoder threads for this clip. H.264 and MPEG-1/2/4 use one: libav's frame threads make it a
  // matter of timing which of their frames are known to be damaged.
  int num_threads = 1;
  // When it becomes true, reading stops soon with Error(kCancelled). May be null.
  const std::atomic<bool>* cancelled = nullptr;
};

// Parses "arange", "linspace" or "fps=2.5"; std::nullopt-free: throws Error(kUsage) naming the
// three forms.
SamplingOptions parse_sampling(std::string_view text, int num_frames);

// Decodes the sampled frames of `file`, of which every byte comes through its descriptor: what the
// path names meanwhile does not matter. The content alone decides what the file is, never its name;
// no other file is opened, whatever a playlist inside asks for. Still pictures are no video.
//
// Frames are counted by their packets, as far as they can be read: of a file that is cut off, what
// is left is sampled, with a warning where the container declares a length beyond it. Frames that
// an edit list hides do not count. Where packets do not tell the frames (interlaced fields, AVI
// without times, ...), the decoder counts them.
// In formats whose times may jump (MPEG-TS files that were joined) a step back of more than 0.1 s
// or ahead of more than 10 s counts as one frame's time: durations and times are those of watching.
// A sampled frame that turns out damaged is left out, not replaced: the clip then has fewer frames
// than frames_wanted, and a warning. Fewer frames than wanted in the stream repeat, as numpy's
// arange repeats them. A damaged stream costs as much as decoding it through, on one thread.
//
// Throws Error: kUsage (sampling out of range), kNotVideo (libav knows no such content),
// kNoVideoStream (audio or cover picture only), kNoFrames, kTooLarge (with the pixels; from what
// the file declares, before decoding), kTimeout, kCancelled, kDecode (a picture that cannot be made
// RGB, or the file changed while it was read), kIo (the system could not read a byte of it: that is
// never taken for its end or for damage) and kOutOfMemory. Thread-safe.
Clip read_clip(const OpenFile& file, const ReadOptions& options);

// Throws as read_clip() for a file without a video stream, from its first bytes: reads no frames.
// Thread-safe.
void require_video(const OpenFile& file, const ReadOptions& options);

// Opens the file and reads it. Throws also what OpenFile throws.
Clip read_clip(const std::filesystem::path& path, const ReadOptions& options);

// What `inspect` shows: the declared properties of the first real video stream.
struct Probe {
  std::string container;
  std::string codec;
  std::string pixel_format;
  std::string colour;  // "tv bt709", ...
  int width_px = 0;    // coded
  int height_px = 0;
  int display_width_px = 0;  // after rotation and sample aspect ratio
  int display_height_px = 0;
  int rotation_degrees = 0;      // clockwise, 0, 90, 180 or 270
  double fps = 0;                // average
  std::int64_t duration_us = 0;  // declared, 0 when absent
  std::int64_t num_frames = 0;   // counted by demuxing, not decoding
  std::int64_t num_keyframes = 0;
  std::int64_t file_bytes = 0;
};

// Demuxes the file once without decoding. Throws as read_clip, but shows an oversized or damaged
// video where that refuses it. Thread-safe.
Probe probe(const OpenFile& file);
Probe probe(const std::filesystem::path& path);

// The libraries that decide pixels, with their versions: "libavcodec 59.37 libswscale 6.7".
std::string library_versions();
// All of FFmpeg that is loaded: "libavformat 59.27.100, libavcodec 59.37.100, ...".
std::string linked_libraries();

}  // namespace caption::video
