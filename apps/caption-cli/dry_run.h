// apps/caption-cli/dry_run.h: reports what `run` would do, without doing it.
#pragma once

#include <string>
#include <vector>

#include "config/locations.h"
#include "config/preset.h"
#include "pipeline/input_list.h"
#include "pipeline/pipeline.h"
#include "records/manifest.h"
#include "run_output.h"

namespace caption::cli {

struct DryRun {
  const config::Preset& preset;
  const config::Locations& locations;  // where the preset's model is looked for
  const OutputFlags& output;
  records::Manifest manifest;
  const pipeline::InputList& inputs;
  const pipeline::Options& options;
  std::vector<std::string> devices;  // names of those that the model runs on
  // Tokens by which system prompt and examples lengthen the prompt of each clip.
  std::int64_t num_lead_tokens = 0;
};

// Prints the number of clips, how many already have records, the output, model, prompts and
// expected duration, and the devices if there are several; at log level kDebug also each clip
// before that. Writes no file.
//
// A clip is recognised by path, size and time. Only files with the size of a recorded file are
// read, since they may be that file under another name. The duration is computed from the times in
// the output's records with the formula of pipeline/time_left.h; without such records it is
// unknown.
//
// Returns the exit code. Throws as preview_output(), and Error(kIo) when stdout cannot be written.
int dry_run(const DryRun& run);

}  // namespace caption::cli
