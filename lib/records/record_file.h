// records/record_file.h: an output file that survives kill -9 and replaces records only by better
// ones.
//
// Each record is one write() to a file opened with O_APPEND; one with a caption is followed by
// fdatasync: after append() has returned, it stays. A process killed inside append() leaves at most
// a torn last line, which the next opening cuts off: its clip is captioned again, no other line is
// touched. Nothing is ever rewritten in place: the last record of a clip counts, and finish() drops
// the lines that no longer do by writing a second file that takes the place of the first whole.
// An exclusive lock keeps a second run from the same file for as long as the RecordFile lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "records/format.h"
#include "records/manifest.h"
#include "records/sink.h"

namespace caption::records {

// What to do with a file that already holds records.
enum class Existing {
  kResume,  // keep every record; find() tells which clips have one
  // Start anew in "<output>.new", which finish() puts in the place of the old file. An overwriting
  // run that was interrupted is continued there.
  kOverwrite,
};

// Records whose captions are to be made again. They stay until a better one is there: of a better
// status, or a longer piece of a cut caption.
struct Retry {
  std::vector<Status> statuses = {};
  // Settings that may differ from the file's manifest in a retry, by the begin of their name
  // ("generation."). The manifest then says under "retried_with.<settings key>" which statuses were
  // retried with what.
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

  // By content where it is known, whatever the file is called; else by place, size and time.
  // Failures for want of memory, time or a whole read, and statuses to be retried, count as not
  // there. Of csv and txt only this run's records are found, and not all of them when there are
  // many.
  Earlier find(const ClipIdentity& clip, const std::string& video,
               std::string_view prompt) override;

  // A record that the disk did not take leaves no part of it behind. Throws Error(kIo); also when
  // the file was deleted, replaced or cut while it was written.
  AppendResult append(const Record& record) override;

  // Puts everything on the disk and compares the file with what was written. Throws Error(kIo).
  void sync();

  // The run could not look for some of its clips: finish() then leaves the old file of kOverwrite
  // where it is.
  void note_unread();

  // sync(); then drops the lines that no longer count, and for kOverwrite takes the place of the
  // old file, unless not one caption was made or a clip could not be read. The object takes no more
  // records.
  enum class Ending { kInPlace, kOldFileStays };
  Ending finish();

  // Where the records are written: `path`, or "<path>.new" beside it until finish().
  bool is_beside() const;
  const std::filesystem::path& written_path() const;
  // Records that the file held when it was opened.
  std::int64_t num_found() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::records
