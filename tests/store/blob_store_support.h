// tests/store/blob_store_support.h: folders, blobs and keys for tests of the blob store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/log.h"

namespace caption::store {

namespace fs = std::filesystem;

inline constexpr std::int64_t kPlenty = 1 << 30;
inline constexpr std::int64_t kHeaderBytes = 72;

inline fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / ("blob_store_" + name);
  fs::remove_all(folder);
  return folder;
}

inline std::vector<std::byte> make_blob(std::uint64_t seed, std::size_t size_bytes) {
  std::mt19937_64 rng(seed);
  std::vector<std::byte> blob(size_bytes);
  for (std::byte& byte : blob) byte = static_cast<std::byte>(rng());
  return blob;
}

inline Hash128 key_of(std::uint64_t number) { return {0x1234567890abcdef, number}; }

inline std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Suppresses the warnings that damaged files cause.
struct Silence {
  LogLevel before = log_level();
  Silence() { set_log_level(LogLevel::kError); }
  ~Silence() { set_log_level(before); }
};

}  // namespace caption::store
