// dry_run.h: what `run` would do, without doing it.
#pragma once

#include "config/preset.h"
#include "pipeline/input_list.h"
#include "pipeline/pipeline.h"
#include "records/manifest.h"
#include "run_output.h"

namespace caption::cli {

struct DryRun {
  const config::Preset& preset;
  const OutputFlags& output;
  records::Manifest manifest;
  const pipeline::InputList& inputs;
  const pipeline::Options& options;
};

// Prints the number of clips, what is known of them already, output, model, prompts and the time
// that it would take; with the log level kDebug each clip before that. Writes no file.
//
// A clip counts as known by place, size and time; only files as large as one that has a record are
// read, since they may be that one under another name. The time comes from the records of the
// output by the formula of pipeline/time_left.h; without such records it is not known.
//
// Returns the exit code. Throws as preview_output(), and Error(kIo) when stdout takes nothing.
int dry_run(const DryRun& run);

}  // namespace caption::cli
