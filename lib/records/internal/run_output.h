// records/internal/run_output.h: the locked file that a run writes, and with --overwrite the locked
// output whose place it takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "records/existing.h"
#include "records/format.h"
#include "records/internal/found_output.h"
#include "records/internal/output_file.h"
#include "records/internal/record_index.h"
#include "records/internal/replaced_records.h"
#include "records/manifest.h"

namespace caption::records {

// Not thread-safe, except that file().read() may be called while another thread appends.
class RunOutput {
 public:
  // Locks the files and finishes or removes what a killed run has left. Afterwards `index` names
  // the records that the run continues, and the file has no torn line behind them; or the run
  // starts anew, and the file has a manifest, the format's header and no record. Throws as
  // RecordFile.
  RunOutput(const std::filesystem::path& output, Format format, const Manifest& now,
            Existing existing, const Retry& retry, RecordIndex& index);

  OutputFile& file() { return *file_; }
  const OutputFile& file() const { return *file_; }
  const std::filesystem::path& output() const { return output_; }
  // FILE.replaced; null with --overwrite and where the format is not JSONL.
  const ReplacedRecords* replaced() const { return replaced_.has_value() ? &*replaced_ : nullptr; }
  // Whether the file is FILE.new.
  bool is_beside() const { return overwritten_.has_value(); }
  // settings_key() of the records that this run writes.
  const std::string& settings() const { return settings_; }

  // Writes everything to the disk, and the manifest again if another program has changed it. Throws
  // Error as RecordFile::sync().
  void sync();

  // Moves captions that would be lost to FILE.replaced and lines that are no records to
  // FILE.damaged. Writes the lines that are live in `index` to a second file, which then takes the
  // place of the first, if any is not. Throws Error as OutputFile and require_own_file().
  void drop_superseded_lines(const RecordIndex& index);

  // Gives FILE.new the name of the output, whose lock is released, and removes FILE.replaced.
  // Throws Error(kIo) if another program has changed the output, and as refuse_foreign_manifest().
  void take_place_of_output();

 private:
  void lock(const FoundOutput& found);
  void finish_swap();
  void remove_unfinished_copies();
  void start_anew(const Manifest& now);
  void mend_end(std::int64_t complete_bytes);
  void copy_live_lines(const RecordIndex& index, OutputFile& target) const;

  const std::filesystem::path output_;
  const Format format_;
  Manifest manifest_;  // that of the file
  std::string settings_;
  std::optional<ReplacedRecords> replaced_;
  std::optional<OutputFile> overwritten_;  // the output while FILE.new is written
  std::optional<OutputFile> file_;
};

}  // namespace caption::records
