// run_output.h: where a run's records go, and what is said of them at its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "config/preset.h"
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"
#include "records/output_preview.h"
#include "records/record_file.h"
#include "records/sink.h"

namespace caption::cli {

struct OutputFlags {
  std::string path;       // empty or "-": standard output
  bool is_given = false;  // -o was
  std::string format;  // empty: by the path's suffix; for standard output jsonl, or txt to be read
  std::vector<std::string> retry;
  bool retry_failed = false;
  bool overwrite = false;
  bool is_spoken = false;  // the caption is written as it comes: no records without -o FILE

  bool is_stdout() const { return path.empty() || path == "-"; }
};

// Throws Error(kUsage) for flags that contradict each other, and for an output that is one of the
// files named on the command line: before a model is loaded.
void check_output(const OutputFlags& flags, const std::vector<std::string>& arguments);

// Lists everything that decides the captions. Empty texts in `prompts` must have been replaced by
// the model's default prompt.
records::Manifest make_manifest(const config::Preset& preset, const Sha256& model_hash,
                                const std::vector<pipeline::Prompt>& prompts);

// What a run with these flags would find in its output, which is not touched; null for standard
// output. Throws as records::OutputPreview.
std::unique_ptr<records::OutputPreview> preview_output(const OutputFlags& flags,
                                                       const records::Manifest& manifest,
                                                       records::KnownBy known_by);

// The output and its format: "captions.jsonl (jsonl)", "standard output (txt)".
std::string describe_output(const OutputFlags& flags);

class RunOutput {
 public:
  // Throws as RecordFile.
  RunOutput(const OutputFlags& flags, const records::Manifest& manifest);

  records::RecordSink& sink() { return *sink_; }
  // Whether the same command goes on where an interrupted run stopped.
  bool can_continue() const;
  // Ends the output of a run that came to its end, or was interrupted; says what became of it.
  // Throws Error(kIo).
  void finish(const pipeline::Outcome& outcome);

 private:
  std::string path_;
  std::unique_ptr<records::RecordSink> sink_;
  records::RecordFile* file_ = nullptr;  // sink_, where it is one
  bool can_continue_ = false;
};

}  // namespace caption::cli
