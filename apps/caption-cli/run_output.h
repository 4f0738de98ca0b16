// apps/caption-cli/run_output.h: the output of a run's records and the report at its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "config/preset.h"
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"
#include "records/format.h"
#include "records/output_preview.h"
#include "records/record_file.h"
#include "records/sink.h"

namespace caption::cli {

struct OutputFlags {
  std::string path;       // empty or "-": standard output
  bool is_given = false;  // whether -o was given
  std::string format;     // empty: the path's suffix decides; stdout: jsonl, or txt on a terminal
  std::vector<std::string> retry;
  bool retry_failed = false;
  bool overwrite = false;
  bool is_streamed = false;  // the caption is streamed to stdout; records only with -o FILE

  bool is_stdout() const { return path.empty() || path == "-"; }
};

// The statuses that --retry names.
std::vector<std::string> retry_names();

// Throws Error(kUsage), before a model is loaded, for flags that contradict each other and for an
// output that is one of the files named on the command line.
void check_output(const OutputFlags& flags, const std::vector<std::string>& arguments);

// Returns all settings that affect the captions. Empty texts in the prompts of `options` must have
// been replaced by the model's default prompt.
records::Manifest make_manifest(const config::Preset& preset, const model::CaptionModel& model,
                                const Sha256& model_hash, const pipeline::Options& options);

// Returns a preview of the output with these flags, without modifying it; null for standard output.
// Throws as records::OutputPreview.
std::unique_ptr<records::OutputPreview> preview_output(const OutputFlags& flags,
                                                       const records::Manifest& manifest,
                                                       records::KnownBy known_by);

// The format of the weights with which the output's records were made, by its manifest; with
// --overwrite, that of the interrupted run that is continued. std::nullopt if there are none yet.
std::optional<config::WeightFormat> weights_of_output(const OutputFlags& flags);
// Adds the captions of the output, where drafts come from an archive. Throws Error(kCancelled).
void add_captions_of_output(const OutputFlags& flags, const std::atomic<bool>& cancelled,
                            pipeline::DraftOptions& drafts);

// Returns the format that --format, the file's name or the terminal chooses.
records::Format choose_format(const OutputFlags& flags);
// Logs which format is written where the file's name has a suffix that names none.
void say_format(const OutputFlags& flags);
// Returns the output and its format: "captions.jsonl (jsonl)", "standard output (txt)".
std::string describe_output(const OutputFlags& flags);

class RunOutput {
 public:
  // Throws as RecordFile.
  RunOutput(const OutputFlags& flags, const records::Manifest& manifest);

  records::RecordSink& sink() { return *sink_; }
  // Whether repeating the command continues an interrupted run.
  bool can_continue() const;
  // The file that holds the records while an --overwrite is unfinished; empty when it is the
  // output.
  std::string unfinished_file() const;
  // Finishes the output of a run that is complete or was interrupted, and logs the result. Throws
  // as records::RecordFile::finish().
  void finish(const pipeline::Outcome& outcome);

 private:
  std::string path_;
  std::unique_ptr<records::RecordSink> sink_;
  records::RecordFile* file_ = nullptr;  // sink_ if it is a RecordFile, otherwise null
  bool can_continue_ = false;
};

}  // namespace caption::cli
