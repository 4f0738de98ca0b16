// tests/records/sample_record.h: records and folders for the tests of lib/records.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "records/record.h"
#include "records/record_file.h"

namespace caption::records {

// Returns a record with a distinct value in every field.
inline Record sample_record(const std::string& video) {
  return {.video = video,
          .window_begin_s = 0.5,
          .window_end_s = 12.345678,
          .caption = "해 질 녘 \"바다\"의 영상입니다.\n둘째 줄, 쉼표",
          .status = Status::kOk,
          .error = std::nullopt,
          .frames_wanted = 8,
          .frames_used = 7,
          .prompt_tokens = 141,
          .vision_tokens = 128,
          .output_tokens = 44,
          .decode_ms = 30.125,
          .vision_ms = 4.5,
          .first_token_ms = 7.25,
          .total_ms = 99.875,
          .finish_reason = "stop",
          .warnings = {"1 frame is missing", "2 corrupted packets skipped"}};
}

inline const Retry kRetryFailed = {.statuses = {Status::kFailed}};

inline Record failed_record(const std::string& video) {
  Record record = sample_record(video);
  record.caption.clear();
  record.finish_reason.clear();
  record.status = Status::kFailed;
  record.error = {.code = "not_found", .message = video + ": No such file"};
  return record;
}

// A temporary folder, removed by the destructor.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "caption_records_XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace caption::records
