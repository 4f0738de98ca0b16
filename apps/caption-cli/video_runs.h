// apps/caption-cli/video_runs.h: runs of the pipeline that `bench VIDEO...` measures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/video_report.h"
#include "bench_videos.h"
#include "config/preset.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"
#include "records/sink.h"

namespace caption::cli {

// What all runs of one command have in common.
struct VideoBench {
  const BenchVideos& wanted;
  const Context& context;
  const Machine& machine;
  const config::Locations& locations;
  const pipeline::InputList& inputs;
  std::vector<pipeline::Prompt> prompts;       // a text may be empty: the model's default
  std::optional<eval::References> references;  // for the first prompt
};

// Throws Error as read_references() and choose_references().
VideoBench make_video_bench(const BenchVideos& wanted, const Context& context,
                            const Machine& machine, const config::LoadedPreset& loaded,
                            const pipeline::InputList& inputs);

// A model, and the options with which `run` would use it.
struct OpenedModel {
  std::unique_ptr<model::CaptionModel> model;
  std::unique_ptr<model::CaptionModel> draft;  // null but for --price drafts with --draft-model
  config::Preset preset;                       // with the model's generation_config.json
  pipeline::Options options;
  bench::DecoderCosts costs;
};

// Throws Error as config::open_model(), and kUsage for a prompt with which no clip could be
// captioned.
OpenedModel open_for_bench(const VideoBench& bench, const config::Preset& preset);

// Bytes of the draft model's KV pages, as many as the model has in `kv_cache_bytes`.
std::int64_t draft_kv_cache_bytes(const OpenedModel& opened, std::int64_t kv_cache_bytes);

// On what the figures depend besides model and machine: `8 frames a clip (arange), prompt "..."`.
std::string describe_work(const OpenedModel& opened);

class CollectingSink final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& record) override;

  std::vector<records::Record> records;
};

// Captions all clips of the bench, with these options, once; `records` gets the captions.
bench::VideoRun run_once(const VideoBench& bench, const OpenedModel& opened,
                         const pipeline::Options& options, std::vector<records::Record>& records);

// Scores the captions that answer `prompt` against its references.
eval::Report evaluate(const eval::References& references, const std::string& prompt,
                      const std::vector<records::Record>& records);
std::vector<bench::VideoScore> scores_of(const eval::Report& report);

}  // namespace caption::cli
