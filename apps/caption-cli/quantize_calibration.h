// apps/caption-cli/quantize_calibration.h: the options of `caption-cli quantize` that name
// calibration data, and the prompts that are made of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/load_preset.h"
#include "quantise/calibration.h"

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

struct CalibrationFlags {
  std::vector<std::string> videos;  // empty: no calibration
  std::string references;           // JSONL or a folder of label files; empty: none
  std::string preset = "auto";
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::int64_t max_tokens = 32768;
  std::string saved_as;  // a file for the prompts; empty: none

  bool is_wanted() const { return !videos.empty(); }
  // The first option that is given and means nothing without --calibrate; nullptr: there is none.
  const char* first_given() const;
};

// Adds the options. `flags` must outlive the parsing.
void add_calibration_flags(CLI::App& command, CalibrationFlags& flags);

// Throws Error(kUsage) when --save-calibration names anything but a new file, or a file that an
// earlier call saved, outside the folders `model` and `output`; kIo when its folder is missing.
void require_replaceable_calibration(const CalibrationFlags& flags,
                                     const std::filesystem::path& model,
                                     const std::filesystem::path& output);

// Called before a video is read, with the numbers of videos read and to be read.
using OnVideo = std::function<void(std::int64_t done, std::int64_t total)>;

// Reads the preset of the calibration once, so that it may be a FIFO. Throws Error(kBadPreset) as
// load_preset(), and kUsage for a preset with examples.
config::LoadedPreset load_calibration_preset(const CalibrationFlags& flags, const Globals& globals);

// Reads the videos with the model in the folder `model`, or with the composed model of the preset
// `loaded` whose language model it is. Logs what is used, and saves it if that is asked for. Throws
// Error as `run` does, kUsage when no video can be used, and kBadReference for references that
// belong to none.
quantise::Calibration read_calibration(const CalibrationFlags& flags, config::LoadedPreset loaded,
                                       const std::filesystem::path& model, const Globals& globals,
                                       const std::atomic<bool>& stop, const OnVideo& on_video);

}  // namespace caption::cli
