// model/internal/model_files.h: what is asked of the files in a model's folder.
#pragma once

#include <filesystem>
#include <system_error>

namespace caption::model {

// Whether a regular file is there; a path that cannot be examined counts as absent.
inline bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace caption::model
