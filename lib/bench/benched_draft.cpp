// The models of drafts that bench_model_drafts() measures.
#include <memory>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
#include "bench/model_draft_bench.h"
#include "bench/workload.h"
#include "drafts/drafter.h"
#include "drafts/layer_choice.h"
#include "engine/draft_decoder.h"
#include "engine/self_draft.h"
#include "kv/page_pool.h"

namespace caption::bench {
namespace {

class BenchedSelf final : public BenchedDraft {
 public:
  explicit BenchedSelf(std::shared_ptr<drafts::LayerChoice> choice) : draft_(std::move(choice)) {}
  drafts::DraftModel& model() override { return draft_; }
  void set_options(engine::EngineOptions& options) override { options.self_draft = &draft_; }

 private:
  engine::SelfDraft draft_;
};

class BenchedDecoder final : public BenchedDraft {
 public:
  BenchedDecoder(model::Decoder& decoder, Stream& stream,
                 const engine::DraftDecoderOptions& options)
      : draft_(decoder, stream, options, text::VocabularyMatch::identity(decoder.spec().vocab)) {}
  drafts::DraftModel& model() override { return draft_; }
  void begin(std::int64_t sequence, const engine::Request& request) override {
    draft_.begin(sequence, {.prompt_ids = request.prompt_ids});
  }

 private:
  engine::DraftDecoder draft_;
};

// Adds up the time of prepare().
class TimedModel final : public drafts::DraftModel {
 public:
  explicit TimedModel(drafts::DraftModel& model) : model_(model) {}

  drafts::GuessSource source() const override { return model_.source(); }
  std::int64_t prepare(std::span<const drafts::DraftQuery> queries, bool may_compute) override {
    const std::int64_t us = model_.prepare(queries, may_compute);
    prepare_us_ += us;
    return us;
  }
  double relative_cost() const override { return model_.relative_cost(); }
  std::int64_t num_missing(std::int64_t sequence,
                           std::span<const std::int32_t> output) const override {
    return model_.num_missing(sequence, output);
  }
  drafts::StepLoad guess(std::span<const drafts::ModelQuery> queries,
                         std::span<drafts::Guess> guesses) override {
    return model_.guess(queries, guesses);
  }
  void end(std::int64_t sequence) override { model_.end(sequence); }
  std::int64_t prepare_us() const { return prepare_us_; }

 private:
  drafts::DraftModel& model_;
  std::int64_t prepare_us_ = 0;
};

}  // namespace

MakeDraft make_self_draft(const std::vector<std::int32_t>& left_out) {
  auto choice = std::make_shared<drafts::LayerChoice>(drafts::LeftOutLayers{.layers = left_out});
  return [choice](const engine::EngineOptions&, std::int64_t) -> std::unique_ptr<BenchedDraft> {
    return std::make_unique<BenchedSelf>(choice);
  };
}

LayersFound find_layers(model::Decoder& decoder, Stream& stream, const DraftBenchOptions& options) {
  constexpr std::int64_t kMostRequests = 64;
  const auto choice = std::make_shared<drafts::LayerChoice>();
  engine::SelfDraft draft(choice);
  TimedModel timed(draft);
  drafts::Drafter drafter({.method = drafts::Method::kSelf,
                           .max_drafts = options.max_drafts,
                           .is_adaptive = false},  // it searches in every step
                          nullptr, nullptr, &timed);
  engine::EngineOptions with_drafts = options.engine;
  with_drafts.max_num_seqs = 1;
  with_drafts.prefix_cache = engine::PrefixCache::kOff;
  with_drafts.draft_source = &drafter;
  with_drafts.max_drafts = options.max_drafts;
  with_drafts.self_draft = &draft;
  engine::Engine engine(decoder, stream, with_drafts);
  for (engine::Request& request : make_requests(
           make_fixed_workload(kMostRequests, options.prompt_tokens, options.output_tokens),
           decoder.spec(), options.seed)) {
    submit(engine, std::move(request));
  }
  while (!choice->get().has_value() && !engine.idle()) engine.step();
  if (!choice->get().has_value()) {
    throw Error(ErrorCode::kUsage, "bench: outputs of " + counted(options.output_tokens, "token") +
                                       " are too short to find layers by; raise --output-tokens");
  }
  return {.layers = *choice->get(), .seconds = as_double(timed.prepare_us()) / 1e6};
}

MakeDraft make_second_decoder(model::Decoder& decoder, Stream& stream, double cost) {
  return [&decoder, &stream, cost](const engine::EngineOptions& options,
                                   std::int64_t num_tokens) -> std::unique_ptr<BenchedDraft> {
    const std::int64_t pages = options.max_num_seqs * (kv::pages_for_tokens(num_tokens) + 1);
    const std::int64_t page_bytes =
        kv::kPageTokens * model::kv_token_bytes(decoder.spec(), options.kv_dtype);
    return std::make_unique<BenchedDecoder>(
        decoder, stream,
        engine::DraftDecoderOptions{.max_num_seqs = options.max_num_seqs,
                                    .max_num_batched_tokens = options.max_num_batched_tokens,
                                    .kv_cache_bytes = pages * page_bytes,
                                    .kv_dtype = options.kv_dtype,
                                    .relative_cost = cost});
  };
}

}  // namespace caption::bench
