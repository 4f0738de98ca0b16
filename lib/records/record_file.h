// records/record_file.h: an output file that survives kill -9 and replaces a record only by a
// better one.
//
// Each record is one write() to a file opened with O_APPEND. A record with a caption is followed by
// fdatasync(), so it is on the disk when append() returns; one whose caption the file has under
// another name follows within 0.1 s of further records. A process killed inside append() leaves at
// most a torn last line, which the next opening cuts off; only that clip is captioned again. Lines
// are never rewritten in place: the last record of a clip is the valid one, and finish() drops the
// obsolete lines by writing a second file that atomically replaces the first. An exclusive lock
// keeps a second run from using the same file while the RecordFile exists.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "records/existing.h"
#include "records/format.h"
#include "records/manifest.h"
#include "records/sink.h"

namespace caption::records {

class RecordFile final : public RecordSink {
 public:
  // Opens or creates `path` and writes its manifest before the first record. Throws Error:
  // kOutputConflict when the file belongs to another configuration (the message names the
  // differences), is not a caption output, is being written by another run, or is in a format that
  // cannot be resumed (csv, txt); kUsage for a folder, FIFO or device; kIo or kOutOfMemory when it
  // cannot be opened or written.
  RecordFile(const std::filesystem::path& path, Format format, const Manifest& manifest,
             Existing existing, const Retry& retry = {});
  ~RecordFile() override;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Looks a clip up by content where the digest is known, whatever its path, otherwise by path,
  // size and time. Records made with settings that do not count, records with a status to be
  // retried, and failures for lack of memory, by a read error, a timeout, failing devices or a
  // change of the file count as absent. For csv and txt only records of this run are found, and not
  // all of them when there are many (run_memory.h).
  Earlier find(const ClipIdentity& clip, const std::string& video,
               std::string_view caption) override;

  // Either appends the whole record or none of it. Throws Error(kIo or kOutOfMemory), also when the
  // file was deleted, replaced or truncated by another program.
  AppendResult append(const Record& record) override;

  // Writes everything to the disk and compares the file with what was written. Throws Error(kIo or
  // kOutOfMemory).
  void sync();

  // Tells that the run could not search for some of its clips; finish() then does not replace the
  // old file of kOverwrite.
  void note_unread();

  // Calls sync(), drops the obsolete lines, and for kOverwrite replaces the old file unless no
  // caption was made, a clip could not be read, or one failed that has a caption in the old file.
  // No record may be appended afterwards. Throws Error(kOutputConflict) if another program has put
  // a file that is no manifest under the old manifest's name.
  enum class Ending { kInPlace, kOldFileStays, kOldHasCaptions };
  Ending finish();

  // The file that records are written to: `path`, or "<path>.new" until finish() renames it.
  bool is_beside() const;
  const std::filesystem::path& written_path() const;
  // Number of valid records in the file when it was opened.
  std::int64_t num_found() const;
  // Number of captions in the file that finish() replaced, in JSONL, of clips or prompts that have
  // no record in the new one.
  std::int64_t num_dropped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::records
