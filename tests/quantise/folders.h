// tests/quantise/folders.h: folders of checkpoints that the tests of quantise read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/weights/quantised_files.h"

namespace caption::testing {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden" / name;
}
inline std::filesystem::path demo_model() {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
}

// The path of a folder that does not exist, in one that does.
inline std::filesystem::path new_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(CAPTION_TEST_TMP) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder.parent_path());
  return folder;
}

// Bytes before the tensors of a safetensors file: the length of the header, and the header.
inline std::int64_t header_bytes(const std::string& file) {
  std::int64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length * 256 + static_cast<unsigned char>(file.at(i));
  return 8 + length;
}

// The files of a folder by name.
using Files = std::map<std::string, std::string>;
inline Files files_of(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_whole_file(entry.path());
  }
  return files;
}

}  // namespace caption::testing
