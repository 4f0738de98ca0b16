#include "draft_prices.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/log.h"
#include "bench/draft_replay.h"
#include "config/choices.h"
#include "config/resolve.h"
#include "drafts/layer_choice.h"
#include "kv/page_pool.h"
#include "option_prices.h"
#include "pipeline/caption_ids.h"
#include "price_comparison.h"

namespace caption::cli {
namespace {

// What the engine got in the runs of the pipeline, in the order of the first one.
class RecordedRequests {
 public:
  // Notes the requests of a run with these options. Vision tokens beyond kEncodedBytes are not
  // kept, nor are their requests.
  void watch(pipeline::Options& options) {
    options.on_draft_inputs = [this](const records::Record& record, const engine::Request& request,
                                     const pipeline::DraftInputs& inputs) {
      note({record.video, record.prompt}, request, inputs);
    };
  }
  const std::vector<bench::ReplayedRequest>& requests() const { return requests_; }
  bool are_all() const { return are_all_; }

 private:
  using Key = std::pair<std::string, std::string>;  // Record::video and prompt

  void note(const Key& key, const engine::Request& request, const pipeline::DraftInputs& inputs) {
    const auto found = numbers_.find(key);
    if (found != numbers_.end()) return add_inputs(inputs, requests_[found->second]);
    const std::int64_t size = request.vision == nullptr ? 0 : request.vision->size_bytes();
    if (bytes_ + size > kEncodedBytes) {
      are_all_ = false;
      return;
    }
    bytes_ += size;
    numbers_.emplace(key, requests_.size());
    bench::ReplayedRequest& replayed = requests_.emplace_back();
    replayed.request = request;
    replayed.request.on_token = {};  // belongs to the run
    replayed.topic = inputs.topic;
    add_inputs(inputs, replayed);
  }
  static void add_inputs(const pipeline::DraftInputs& inputs, bench::ReplayedRequest& replayed) {
    if (inputs.look.has_value()) replayed.look = inputs.look;
    if (inputs.prompt.has_value()) replayed.draft_prompt = inputs.prompt;
  }

  std::vector<bench::ReplayedRequest> requests_;
  std::map<Key, std::size_t> numbers_;
  std::int64_t bytes_ = 0;
  bool are_all_ = true;
};

std::vector<config::DraftMethod> methods_of(const OpenedModel& opened) {
  std::vector<config::DraftMethod> methods(kPricedMethods.begin(), kPricedMethods.end());
  if (opened.options.engine.compression.mode != engine::CompressionMode::kNone) {
    std::erase(methods, config::DraftMethod::kSelf);
  }
  if (opened.draft != nullptr) methods.push_back(config::DraftMethod::kModel);
  return methods;
}

std::unique_ptr<engine::DraftDecoder> make_draft_decoder(const OpenedModel& opened, Stream& stream,
                                                         const engine::EngineOptions& options) {
  return std::make_unique<engine::DraftDecoder>(
      opened.draft->decoder(), stream,
      pipeline::draft_decoder_options(*opened.model, *opened.draft, options,
                                      draft_kv_cache_bytes(opened, options.kv_cache_bytes)),
      pipeline::match_draft(*opened.model, *opened.draft));
}

// KV memory of each of several engines: a part of the run's, and no less than a full batch of the
// longest requests takes, as long as the run has it.
std::int64_t kv_bytes_of_part(const OpenedModel& opened, const RecordedRequests& recorded,
                              std::size_t num_parts) {
  const engine::EngineOptions& engine = opened.options.engine;
  std::int64_t most_tokens = 0;
  for (const bench::ReplayedRequest& replayed : recorded.requests()) {
    const engine::Request& request = replayed.request;
    most_tokens = std::max(most_tokens, std::ssize(request.prompt_ids) +
                                            std::int64_t{request.sampling.max_new_tokens});
  }
  const std::int64_t wanted = engine.max_num_seqs * kv::pages_for_tokens(most_tokens) *
                              config::kv_page_bytes(opened.preset, opened.model->decoder().spec());
  return std::max(engine.kv_cache_bytes / static_cast<std::int64_t>(num_parts),
                  std::min(engine.kv_cache_bytes, wanted));
}

// Runs the pipeline once with each method, and the engines in turns.
class DraftPricing {
 public:
  DraftPricing(const VideoBench& bench, const OpenedModel& opened)
      : bench_(bench), opened_(opened), collector_(bench), options_(opened.options) {
    options_.encodes_first = true;
    options_.vision_queue_bytes = std::max(options_.vision_queue_bytes, kEncodedBytes);
  }

  bench::PriceReport run() {
    for (const config::DraftMethod method : methods_of(opened_)) caption_with(method);
    bench::PriceReport report = collector_.take_report();
    if (recorded_.requests().empty()) return report;
    std::vector<bench::ReplayedRow> rows = replay();
    for (std::size_t i = 0; i < rows.size(); ++i) report.rows[i].replayed = std::move(rows[i]);
    return report;
  }

 private:
  void caption_with(config::DraftMethod method);
  std::vector<bench::ReplayedRow> replay();

  const VideoBench& bench_;
  const OpenedModel& opened_;
  PriceCollector collector_;
  pipeline::Options options_;
  RecordedRequests recorded_;
  std::vector<bench::ReplayedMethod> methods_;
};

// Self-drafts leave out the layers that the pipeline's run has found.
void DraftPricing::caption_with(config::DraftMethod method) {
  const std::string name = "drafts: " + std::string(config::choice_name(method));
  log_info("bench", name);
  pipeline::Options options = options_;
  options.drafts.how.method = method;
  options.drafts.layers = std::make_shared<drafts::LayerChoice>();
  recorded_.watch(options);
  std::vector<records::Record> records;
  bench::VideoRun run = run_once(bench_, opened_, options, records);
  const std::size_t row = methods_.size();
  collector_.add_row(name);
  collector_.add_run(row, std::move(run), records);
  methods_.push_back({.how = options.drafts.how, .layers = options.drafts.layers});
}

std::vector<bench::ReplayedRow> DraftPricing::replay() {
  if (!recorded_.are_all()) {
    log_warning("bench", "speeds are those of the first clips, as many as the memory has room for");
  }
  ThreadPool pool(options_.threads.engine);
  Stream stream(opened_.model->context(), pool);
  for (bench::ReplayedMethod& method : methods_) {
    if (method.how.method != drafts::Method::kModel) continue;
    method.make_model = [this, &stream](const engine::EngineOptions& options) {
      return make_draft_decoder(opened_, stream, options);
    };
  }
  bench::ReplayOptions replay;
  replay.engine = options_.engine;
  replay.engine.kv_cache_bytes = kv_bytes_of_part(opened_, recorded_, methods_.size());
  replay.engine.host_pages_bytes /= static_cast<std::int64_t>(methods_.size());
  replay.num_rounds = kRoundsPerRepeat * bench_.wanted.repeat;
  replay.nearest_bytes = options_.drafts.nearest_bytes();
  replay.archive_bytes = options_.drafts.archive_bytes();
  for (const std::string& caption : options_.drafts.known_captions) {
    replay.known_texts.push_back(pipeline::caption_ids(*opened_.model, caption));
  }
  replay.on_round = [&](int round) {
    log_info("bench", "all methods in turn, round " + std::to_string(round + 1) + " of " +
                          std::to_string(replay.num_rounds));
  };
  return bench::replay_drafts(opened_.model->decoder(), stream, recorded_.requests(), methods_,
                              replay);
}

}  // namespace

bench::PriceReport price_drafts(const VideoBench& bench, const OpenedModel& opened) {
  warm_up(bench, opened);
  return DraftPricing(bench, opened).run();
}

}  // namespace caption::cli
