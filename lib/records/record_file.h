// records/record_file.h: an output file that survives kill -9.
//
// Each record is one write() to a file opened with O_APPEND, followed by fdatasync: after append()
// has returned, the record stays. A process killed inside append() leaves at most a torn last line,
// which the next opening cuts off: its clip is captioned again, no other line is touched.
// An exclusive lock keeps a second run from the same file for as long as the RecordFile lives.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "records/format.h"
#include "records/manifest.h"
#include "records/resume_index.h"
#include "records/sink.h"

namespace caption::records {

// What to do with a file that already holds records.
enum class Existing {
  kResume,     // keep every line; finished() tells which clips to skip
  kOverwrite,  // start anew, whatever the file is
};

// Records whose captions are to be made again: their lines are dropped first. The file is rewritten
// once, to a temporary file that replaces it whole; the other lines stay byte for byte.
struct Retry {
  std::vector<Status> statuses = {};
  // Settings that may differ from the file's manifest in a retry, by the begin of their name
  // ("generation."). The manifest then says under "retried_with" which statuses were retried with
  // what.
  std::vector<std::string> changeable = {};
};

class RecordFile final : public RecordSink {
 public:
  // Opens or creates `path` and writes its manifest before the first record.
  // Throws Error: kOutputConflict when the file belongs to another configuration (the differences
  // named), is no caption output, is being written by another run, or holds records in a format
  // that cannot be resumed (csv, txt); kUsage for a folder, FIFO or device; kIo.
  RecordFile(const std::filesystem::path& path, Format format, const Manifest& manifest,
             Existing existing, const Retry& retry = {});
  ~RecordFile() override;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // A record that the disk did not take leaves no part of it behind. Throws Error(kIo).
  AppendResult append(const Record& record) override;

  // The clips that the file held when it was opened.
  const ResumeIndex& finished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::records
