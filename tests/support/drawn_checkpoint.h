// tests/support/drawn_checkpoint.h: checkpoints whose weights are drawn from a seed, as
// scripts/drawn.py draws them for the reference.
#pragma once

#include <filesystem>

namespace caption::testing {

// A model's folder made from a golden case: the configuration files of the case, the shared files
// that its tensors.json names, and safetensors files with drawn values; the same for subfolders.
// The folder is removed with the object.
class DrawnCheckpoint {
 public:
  explicit DrawnCheckpoint(const std::filesystem::path& golden_case);
  ~DrawnCheckpoint();
  DrawnCheckpoint(const DrawnCheckpoint&) = delete;
  DrawnCheckpoint& operator=(const DrawnCheckpoint&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace caption::testing
