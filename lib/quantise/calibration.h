// quantise/calibration.h: the prompts whose activations choose the codes of a calibrated format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace caption::quantise {

// A prompt of T tokens, of which V are vision tokens.
struct CalibrationPrompt {
  std::vector<std::int32_t> ids;          // [T]
  std::vector<std::int32_t> positions;    // [T], or [3, T] for a decoder with M-RoPE
  std::vector<std::int32_t> vision_rows;  // [V] ascending indices of ids
  // [V, DecoderSpec::vision_width()] f32 on the host, dense; null without vision tokens. Prompts of
  // one clip share it.
  std::shared_ptr<const Tensor> vision;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(ids.size()); }
};

struct Calibration {
  std::vector<CalibrationPrompt> prompts;
  // What the prompts are made of, as names and digests, for the output's manifest. A checkpoint is
  // continued with equal ones only; "calibration references" and "calibration limit", from which
  // the prompts are chosen, may differ where the prompts do not, and name the cause where they do.
  std::vector<std::pair<std::string, std::string>> identity = {};

  std::int64_t num_tokens() const {
    std::int64_t sum = 0;
    for (const CalibrationPrompt& prompt : prompts) sum += prompt.num_tokens();
    return sum;
  }
};

// Writes the prompts as safetensors, so that another tool can be given the same ones:
//   prompt_<5 digits>.ids [T] I32, .positions [axes, T] I32, .vision_rows [V] I32,
//   .vision [V, vision_width] F32
// Throws Error(kIo).
void save_calibration(const Calibration& calibration, const std::filesystem::path& path);

// Whether the file begins as save_calibration() writes it. Throws Error as OpenFile does, for
// example kNotRegularFile for a folder or a device.
bool is_saved_calibration(const std::filesystem::path& path);

}  // namespace caption::quantise
