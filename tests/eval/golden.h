// tests/eval/golden.h: reads the files that scripts/make_goldens_eval.py wrote, and compares with
// them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/json.h"

namespace caption::eval {

// Both sides sum at most some hundred terms near 1 in double: 1e-12 is 4500 eps.
constexpr double kGoldenTolerance = 1e-12;

inline JsonObject golden(const std::string& name) {
  return JsonObject::open(std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/eval" / name,
                          ErrorCode::kBadReference);
}

inline void check_close(double found, double wanted, double tolerance = kGoldenTolerance) {
  CAPTURE(found);
  CAPTURE(wanted);
  CHECK(std::abs(found - wanted) <= tolerance);
}

// A new, empty folder in the build tree.
inline std::filesystem::path fresh_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(CAPTION_TEST_TMP) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline std::filesystem::path write_file(const std::filesystem::path& path,
                                        const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace caption::eval
