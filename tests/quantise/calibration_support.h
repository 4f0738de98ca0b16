// tests/quantise/calibration_support.h: prompts that are drawn, and calibrated checkpoints of them.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "model/blueprint.h"
#include "model/text_family.h"
#include "quantise/calibration.h"
#include "quantise/quantise_checkpoint.h"

namespace caption::testing {

using quantise::Calibration;
using quantise::CalibrationPrompt;
using quantise::QuantiseOptions;

// Prompts of drawn tokens: each is followed by one of a few, so that the inputs are correlated.
inline Calibration draw_prompts(std::int64_t vocab, int num_prompts, int num_tokens,
                                unsigned seed) {
  std::mt19937 random(seed);
  Calibration calibration;
  for (int p = 0; p < num_prompts; ++p) {
    CalibrationPrompt& prompt = calibration.prompts.emplace_back();
    auto token = static_cast<std::int64_t>(random() % static_cast<unsigned>(vocab));
    for (int t = 0; t < num_tokens; ++t) {
      prompt.ids.push_back(static_cast<std::int32_t>(token));
      token = (token * 7 + static_cast<std::int64_t>(random() % 5)) % vocab;
    }
    prompt.positions.resize(prompt.ids.size());
    std::iota(prompt.positions.begin(), prompt.positions.end(), 0);
  }
  calibration.identity = {{"calibration clips", std::to_string(seed)}};
  return calibration;
}

inline QuantiseOptions calibrated_options(const std::filesystem::path& model,
                                          const std::filesystem::path& output, const char* format,
                                          const Calibration* calibration,
                                          std::int64_t group = 128) {
  QuantiseOptions options{.model = model, .output = output, .format = format, .num_threads = 2};
  options.format_options.group_columns = group;
  options.calibration = calibration;
  return options;
}

inline model::Blueprint decoder_of(const std::filesystem::path& folder) {
  const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
  model::Blueprint blueprint;
  model::add_decoder(blueprint, model::parse_text_config(config).spec, {"model."}, {""});
  return blueprint;
}

inline std::string calibration_error(const QuantiseOptions& options, ErrorCode code) {
  try {
    quantise::quantise_checkpoint(options);
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(code));
    return error.what();
  }
  return "no error";
}

}  // namespace caption::testing
