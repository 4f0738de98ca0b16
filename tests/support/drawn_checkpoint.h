// tests/support/drawn_checkpoint.h: checkpoints whose weights are drawn from a seed, as
// scripts/drawn.py draws them for the reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace caption::testing {

// A tensor that a golden's tensors.json describes.
struct DrawnTensor {
  std::string name;
  std::string dtype;
  Shape shape;
  std::int64_t center = 0;
  std::int64_t scale = 0;
  std::int64_t power = 0;  // drawn numbers are multiplied by 2^power
  std::int64_t file = 0;
  std::vector<double> values = {};  // used in place of drawn ones
  std::string text = {};            // bytes in place of drawn ones
};

struct DrawnTensors {
  std::uint64_t seed = 0;
  std::vector<DrawnTensor> tensors;
};
DrawnTensors read_drawn_tensors(const std::filesystem::path& golden_case);
// For F32, BF16 and F16.
std::vector<float> draw_values(const DrawnTensor& tensor, std::uint64_t seed);
// Appends the values as `dtype` (F32, BF16 or F16) holds them.
void append_values(const std::vector<float>& values, const std::string& dtype, std::string& bytes);

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
