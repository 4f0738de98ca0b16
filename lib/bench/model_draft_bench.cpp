#include "bench/model_draft_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
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
      : draft_(decoder, stream, options, equal_vocabulary(decoder.spec().vocab)) {}
  drafts::DraftModel& model() override { return draft_; }
  void begin(std::int64_t sequence, const engine::Request& request) override {
    draft_.begin(sequence, {.prompt_ids = request.prompt_ids});
  }

 private:
  static text::VocabularyMatch equal_vocabulary(std::int64_t vocab) {
    text::VocabularyMatch match;
    match.to_other.resize(static_cast<std::size_t>(vocab));
    std::iota(match.to_other.begin(), match.to_other.end(), 0);
    match.from_other = match.to_other;
    return match;
  }

  engine::DraftDecoder draft_;
};

// Replaces the guesses of a model, which computes them, by ones that are right with the
// probability `agreement`.
class PlantedModel final : public drafts::DraftModel {
 public:
  PlantedModel(drafts::DraftModel& model, double agreement, std::mt19937_64& random,
               std::int64_t vocab)
      : model_(model), agreement_(agreement), random_(random), vocab_(vocab) {}

  // The output of sequence i is outputs[i].
  void set_outputs(std::vector<Ids> outputs) { outputs_ = std::move(outputs); }

  drafts::GuessSource source() const override { return model_.source(); }
  std::int64_t prepare(std::span<const drafts::DraftQuery> queries) override {
    return model_.prepare(queries);
  }
  double relative_cost() const override { return model_.relative_cost(); }
  std::int64_t num_missing(std::int64_t sequence,
                           std::span<const std::int32_t> output) const override {
    return model_.num_missing(sequence, output);
  }
  drafts::StepLoad guess(std::span<const drafts::ModelQuery> queries,
                         std::span<drafts::Guess> guesses) override {
    const drafts::StepLoad load = model_.guess(queries, guesses);
    for (std::size_t i = 0; i < queries.size(); ++i) replace(queries[i], guesses[i]);
    return load;
  }
  void end(std::int64_t sequence) override { model_.end(sequence); }

 private:
  void replace(const drafts::ModelQuery& query, drafts::Guess& guess) {
    if (guess.token == drafts::kNoGuess || agreement_ == kOwnGuesses) return;
    const Ids& output = outputs_.at(static_cast<std::size_t>(query.sequence));
    const std::size_t position = query.output.size() + query.followers.size();
    if (position >= output.size()) return;
    const bool is_right = static_cast<double>(random_() >> 11) < agreement_ * 0x1.0p53;
    const std::int64_t token = is_right ? output[position] : (output[position] + 1) % vocab_;
    guess = {.token = static_cast<std::int32_t>(token),
             .match_length = drafts::kModelMatch,
             .count = drafts::kModelTotal / 2,
             .total = drafts::kModelTotal};
  }

  drafts::DraftModel& model_;
  double agreement_;
  std::mt19937_64& random_;
  std::int64_t vocab_;
  std::vector<Ids> outputs_;
};

// Adds up the time of prepare().
class TimedModel final : public drafts::DraftModel {
 public:
  explicit TimedModel(drafts::DraftModel& model) : model_(model) {}

  drafts::GuessSource source() const override { return model_.source(); }
  std::int64_t prepare(std::span<const drafts::DraftQuery> queries) override {
    const std::int64_t us = model_.prepare(queries);
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

class ModelDraftBench {
 public:
  ModelDraftBench(model::Decoder& decoder, Stream& stream, const MakeDraft& make_draft,
                  const ModelDraftOptions& options)
      : decoder_(decoder),
        stream_(stream),
        make_draft_(make_draft),
        options_(options),
        common_(options.common),
        random_(common_.seed) {}

  std::vector<ModelDraftRow> run_batch(std::int32_t batch);

 private:
  enum class Purpose : std::uint64_t { kLearning, kMeasured };
  std::vector<engine::Request> requests(std::int32_t batch, Purpose purpose) const {
    return make_requests(make_fixed_workload(batch, common_.prompt_tokens, common_.output_tokens),
                         decoder_.spec(), common_.seed + static_cast<std::uint64_t>(purpose));
  }
  engine::EngineOptions engine_options(std::int32_t batch) const {
    engine::EngineOptions engine = common_.engine;
    engine.max_num_seqs = batch;
    engine.prefix_cache = engine::PrefixCache::kOff;
    return engine;
  }
  Decoding run_plain(std::int32_t batch, Purpose purpose) {
    engine::Engine engine(decoder_, stream_, engine_options(batch));
    return decode_together(engine, requests(batch, purpose));
  }
  ModelDraftRow run_drafted(std::int32_t batch, double agreement, std::int32_t depth);
  void set_formula(std::vector<ModelDraftRow>& rows) const;

  model::Decoder& decoder_;
  Stream& stream_;
  const MakeDraft& make_draft_;
  const ModelDraftOptions& options_;
  const DraftBenchOptions& common_;
  std::mt19937_64 random_;
  std::vector<Ids> learned_;
  std::vector<Ids> measured_;
};

// Fills the row but for the speed without drafts.
ModelDraftRow ModelDraftBench::run_drafted(std::int32_t batch, double agreement,
                                           std::int32_t depth) {
  const bool is_adaptive = depth == kAdaptiveDepth;
  engine::EngineOptions with_drafts = engine_options(batch);
  with_drafts.max_drafts = is_adaptive ? common_.max_drafts : depth;
  const std::unique_ptr<BenchedDraft> benched = make_draft_(with_drafts);
  PlantedModel planted(benched->model(), agreement, random_, decoder_.spec().vocab);
  std::vector<Ids> outputs = learned_;
  outputs.insert(outputs.end(), measured_.begin(), measured_.end());
  planted.set_outputs(std::move(outputs));
  drafts::Drafter drafter({.method = drafts::Method::kModel,
                           .max_drafts = with_drafts.max_drafts,
                           .is_adaptive = is_adaptive},
                          nullptr, nullptr, &planted);
  with_drafts.draft_source = &drafter;
  benched->set_options(with_drafts);
  engine::Engine engine(decoder_, stream_, with_drafts);
  const auto begin = [&](std::int64_t sequence, const engine::Request& request) {
    benched->begin(sequence, request);
  };
  decode_together(engine, requests(batch, Purpose::kLearning), begin);
  const Decoding decoding = decode_together(engine, requests(batch, Purpose::kMeasured), begin);
  ModelDraftRow row{.batch = batch, .agreement = agreement, .depth = depth};
  row.tokens_per_s = as_double(decoding.num_tokens) / decoding.seconds;
  row.tokens_per_step =
      as_double(decoding.num_tokens) / as_double(decoding.num_tokens - decoding.num_accepted);
  row.step_us = 1e6 * decoding.seconds / as_double(decoding.num_steps);
  row.outputs_are_equal = decoding.outputs == measured_;
  return row;
}

double tokens_of(double agreement, std::int32_t depth) {
  double tokens = 1;
  for (double right = agreement; depth > 0; --depth, right *= agreement) tokens += right;
  return tokens;
}

// Fits the mean time of a step with d guesses, M + C + C d, by least squares. A step without any
// has the speed of the batch.
void ModelDraftBench::set_formula(std::vector<ModelDraftRow>& rows) const {
  double count = 0;
  double sum_d = 0;
  double sum_dd = 0;
  double sum_us = 0;
  double sum_dus = 0;
  const auto add = [&](double d, double us) {
    count += 1;
    sum_d += d;
    sum_dd += d * d;
    sum_us += us;
    sum_dus += d * us;
  };
  for (const ModelDraftRow& row : rows) {
    if (row.depth == kAdaptiveDepth) continue;
    add(row.depth, row.step_us);
    add(0, 1e6 * row.batch / row.plain_tokens_per_s);
  }
  if (count == 0) return;
  const double c = (count * sum_dus - sum_d * sum_us) / (count * sum_dd - sum_d * sum_d);
  const double m_c = (sum_us - c * sum_d) / count;
  const auto formula = [&](double agreement, std::int32_t depth) {
    return tokens_of(agreement, depth) * m_c / (m_c + c * depth);
  };
  for (ModelDraftRow& row : rows) {
    if (row.agreement == kOwnGuesses) continue;
    row.formula_ratio = formula(row.agreement, row.depth);
    for (std::int32_t depth = 1; row.depth == kAdaptiveDepth && depth <= common_.max_drafts;
         ++depth) {
      row.formula_ratio = std::max(row.formula_ratio, formula(row.agreement, depth));
    }
  }
}

std::vector<ModelDraftRow> ModelDraftBench::run_batch(std::int32_t batch) {
  learned_ = run_plain(batch, Purpose::kLearning).outputs;
  measured_ = run_plain(batch, Purpose::kMeasured).outputs;
  std::vector<ModelDraftRow> rows;
  for (const double agreement : common_.agreements) {
    for (const std::int32_t depth : options_.depths) {
      std::vector<ModelDraftRow> runs;
      for (int round = 0; round < common_.repeat; ++round) {
        if (common_.on_run) {
          common_.on_run(counted(std::int64_t{batch}, "sequence") + ", agreement " +
                         (agreement == kOwnGuesses ? "of its own" : format_number(agreement, 2)) +
                         ", depth " + std::to_string(depth) + ", run " + std::to_string(round + 1) +
                         " of " + std::to_string(common_.repeat));
        }
        const Decoding plain = run_plain(batch, Purpose::kMeasured);
        runs.push_back(run_drafted(batch, agreement, depth));
        runs.back().plain_tokens_per_s = as_double(plain.num_tokens) / plain.seconds;
      }
      const bool are_equal = std::all_of(
          runs.begin(), runs.end(), [](const ModelDraftRow& row) { return row.outputs_are_equal; });
      std::sort(runs.begin(), runs.end(),
                [](const auto& a, const auto& b) { return a.ratio() < b.ratio(); });
      rows.push_back(runs[runs.size() / 2]);
      rows.back().outputs_are_equal = are_equal;
    }
  }
  set_formula(rows);
  return rows;
}

}  // namespace

MakeDraft make_self_draft(const std::vector<std::int32_t>& left_out) {
  auto choice = std::make_shared<drafts::LayerChoice>(drafts::LeftOutLayers{.layers = left_out});
  return [choice](const engine::EngineOptions&) -> std::unique_ptr<BenchedDraft> {
    return std::make_unique<BenchedSelf>(choice);
  };
}

LayersFound find_layers(model::Decoder& decoder, Stream& stream, const DraftBenchOptions& options) {
  constexpr std::int64_t kMostRequests = 64;
  const auto choice = std::make_shared<drafts::LayerChoice>();
  engine::SelfDraft draft(choice);
  TimedModel timed(draft);
  drafts::Drafter drafter({.method = drafts::Method::kSelf, .max_drafts = options.max_drafts},
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
    engine.submit(std::move(request));
  }
  while (!choice->get().has_value() && !engine.idle()) engine.step();
  if (!choice->get().has_value()) {
    throw Error(ErrorCode::kUsage, "bench: outputs of " + counted(options.output_tokens, "token") +
                                       " are too short to find layers by; raise --output-tokens");
  }
  return {.layers = *choice->get(), .seconds = as_double(timed.prepare_us()) / 1e6};
}

MakeDraft make_second_decoder(model::Decoder& decoder, Stream& stream, double cost) {
  return [&decoder, &stream,
          cost](const engine::EngineOptions& options) -> std::unique_ptr<BenchedDraft> {
    const std::int64_t pages =
        options.max_num_seqs * kv::pages_for_tokens(decoder.spec().max_positions);
    const std::int64_t page_bytes =
        kv::kPageTokens * model::kv_token_bytes(decoder.spec(), options.kv_dtype);
    return std::make_unique<BenchedDecoder>(
        decoder, stream,
        engine::DraftDecoderOptions{
            .max_num_seqs = options.max_num_seqs,
            .max_num_batched_tokens = options.max_num_batched_tokens,
            .kv_cache_bytes = std::min(options.kv_cache_bytes, pages * page_bytes),
            .kv_dtype = options.kv_dtype,
            .relative_cost = cost});
  };
}

std::vector<ModelDraftRow> bench_model_drafts(model::Decoder& decoder, Stream& stream,
                                              const MakeDraft& make_draft,
                                              const ModelDraftOptions& options) {
  CAPTION_CHECK(options.common.repeat >= 1 && options.common.output_tokens >= 4,
                "bench: nothing to decode");
  ModelDraftBench bench(decoder, stream, make_draft, options);
  std::vector<ModelDraftRow> rows;
  for (const std::int32_t batch : options.common.batches) {
    for (ModelDraftRow& row : bench.run_batch(batch)) rows.push_back(row);
  }
  return rows;
}

std::string to_table(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  constexpr std::size_t kWidth = 13;
  const auto column = [](const std::string& text) { return pad_left(text, kWidth); };
  std::string text = subject + "\n\n";
  for (const char* name : {"sequences", "agreement", "depth", "tokens/step", "plain tok/s", "tok/s",
                           "ratio", "formula", "of it", "outputs"}) {
    text += column(name);
  }
  text += "\n";
  for (const ModelDraftRow& row : rows) {
    const bool is_own = row.agreement == kOwnGuesses;
    text += column(std::to_string(row.batch)) +
            column(is_own ? "own" : format_number(row.agreement, 2)) +
            column(row.depth == kAdaptiveDepth ? "chosen" : std::to_string(row.depth)) +
            column(format_number(row.tokens_per_step)) +
            column(format_number(row.plain_tokens_per_s)) +
            column(format_number(row.tokens_per_s)) + column(format_number(row.ratio()) + "x") +
            column(is_own ? "-" : format_number(row.formula_ratio) + "x") +
            column(row.formula_ratio > 0 ? format_percent(row.ratio() / row.formula_ratio) : "-") +
            column(row.outputs_are_equal ? "equal" : "DIFFER") + "\n";
  }
  std::vector<std::pair<std::int32_t, double>> plain;
  for (const ModelDraftRow& row : rows) plain.emplace_back(row.batch, row.plain_tokens_per_s);
  return text +
         "\nagreement: the probability that a guess is right if those before it are, or the "
         "model's own;\nformula: T (M + C) / (M + C (1 + d)), M and C of the steps above; of a "
         "chosen depth that of the best;\nof it: ratio divided by formula\n" +
         describe_scatter(plain);
}

std::string to_json(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  JsonWriter json;
  json.begin_object().add("model", subject).begin_list("rows");
  for (const ModelDraftRow& row : rows) {
    json.begin_object()
        .add("sequences", std::int64_t{row.batch})
        .add("agreement", row.agreement)
        .add("depth", std::int64_t{row.depth})
        .add("tokens_per_step", row.tokens_per_step)
        .add("plain_tokens_per_s", row.plain_tokens_per_s)
        .add("tokens_per_s", row.tokens_per_s)
        .add("step_us", row.step_us)
        .add("ratio", row.ratio())
        .add("formula_ratio", row.formula_ratio)
        .add("outputs_are_equal", row.outputs_are_equal)
        .end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
