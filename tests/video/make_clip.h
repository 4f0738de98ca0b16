// tests/video/make_clip.h: makes small videos at test time whose frames carry their number.
//
// Every frame shows its number as sixteen black or white cells, so a test can read from decoded RGB
// which frame it got. Link caption_test_clips.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "video/clip.h"

namespace caption::test {

struct ClipSpec {
  std::string encoder = "libx264";  // libav's name
  std::string muxer = "mp4";        // libav's name: mp4, matroska, mpegts, avi, webm, mov, ...
  int width_px = 128;
  int height_px = 96;
  int num_frames = 60;
  int fps = 25;
  int gop_frames = 12;
  int b_frames = 0;
  std::string pixel_format = "yuv420p";
  // Presentation time of frame i in 1/(4*fps) seconds, ascending; empty: 4 * i.
  std::vector<std::int64_t> quarter_frame_pts = {};
  int cut_frames = 0;        // frames that an edit list hides at the start
  int rotation_degrees = 0;  // clockwise, for display: 0, 90, 180, 270
  int sar_num = 1;           // sample aspect ratio
  int sar_den = 1;
  std::string colour_range = {};   // "tv", "pc", or empty for unspecified
  std::string colour_matrix = {};  // "bt709", "smpte170m", ..., or empty
  std::optional<std::array<std::uint8_t, 3>> solid_yuv = {};  // 8-bit; replaces the number
  bool is_still = false;  // every frame shows the number of the last one
  bool is_noise = false;  // random pixels, new for each frame, instead of the number
  const video::Clip* pictures = nullptr;  // their frames in turn, scaled, instead of the number
  int second_width_px = 0;  // picture width from the middle of the clip on, same codec; 0: none
  std::vector<std::pair<std::string, std::string>> encoder_options = {};
  std::vector<std::pair<std::string, std::string>> muxer_options = {};
};

// Why this libav cannot make the clip; empty when it can. Tests print it and skip the case.
std::string why_not_available(const ClipSpec& spec);

// Writes the video. Throws Error(kIo) with libav's reason.
void make_clip(const std::filesystem::path& path, const ClipSpec& spec);

// The number that a frame shows; -1 when a cell is neither black nor white.
int frame_number(const video::Frame& frame);

// Writes an M4A file with one second of tone and no video; with a cover picture for
// Cover::kPicture.
enum class Cover { kNone, kPicture };
void make_audio(const std::filesystem::path& path, Cover cover);

// A new empty folder in the system's temporary folder, removed with its content by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<char> read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::vector<char>& bytes);

}  // namespace caption::test
