// The goldens of scripts/make_goldens_gguf_models.py, and what tests of GGUF files check with.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "tests/weights/gguf_bytes.h"

namespace caption::weights {

namespace fs = std::filesystem;

inline const fs::path kGgufModels = CAPTION_SOURCE_DIR "/tests/golden/gguf_models";
inline constexpr const char* kTextCases[] = {"llama", "mistral", "qwen2", "qwen3"};
inline constexpr const char* kCaptioners[] = {"qwen2_5_vl", "qwen3_vl", "internvl"};

inline JsonObject expected_of(const std::string& name) {
  return JsonObject::open(kGgufModels / name / "expected.json", ErrorCode::kBadModel);
}

inline fs::path written(const std::string& name, const GgufBytes& file) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "gguf_source";
  fs::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << file.text();
  return folder / name;
}

// Returns the error message; "" when there is none.
template <class Work>
std::string refusal(ErrorCode code, Work work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
}

inline void check_contains(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace caption::weights
