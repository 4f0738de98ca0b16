// tests/fuzz/files.h: inputs of a fuzz target that are read from files.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"

namespace caption::fuzz {

// A folder of this process, removed at the end, with one file for each name: a NUL byte ends the
// content of every file but the last. A file whose content is missing does not exist.
class InputFolder {
 public:
  InputFolder(std::string_view input, std::initializer_list<const char*> names)
      : path_(std::filesystem::temp_directory_path() /
              ("caption-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    bool has_more = true;
    for (const char* const& name : names) {
      if (!has_more) break;
      const bool is_last = &name == names.end() - 1;
      const std::size_t end = is_last ? std::string_view::npos : input.find('\0');
      std::ofstream(path_ / name, std::ios::binary) << input.substr(0, end);
      has_more = end != std::string_view::npos;
      input.remove_prefix(has_more ? end + 1 : input.size());
    }
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Does a part of the work, which may refuse the input with an error of one of these codes.
template <class Work>
void expect_refusal_or_none(std::initializer_list<ErrorCode> codes, Work work) {
  try {
    work();
  } catch (const Error& error) {
    require(std::find(codes.begin(), codes.end(), error.code()) != codes.end(), error.what());
    const std::string_view message = error.what();
    require(is_valid_utf8(message), "messages are valid UTF-8");
    require(message.find('\n') == std::string_view::npos, "messages are one line");
  }
}

}  // namespace caption::fuzz
