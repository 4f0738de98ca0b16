#include "bench/model_draft_bench.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
#include "bench/internal/planted_model.h"
#include "bench/internal/turns.h"
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

// Figures of an engine's part of a round.
struct Turns {
  double us = 0;
  double tokens = 0;
  double steps = 0;
  double sequence_steps = 0;  // steps of each sequence, added up
  double pass_us = 0;
  double passes = 0;

  double us_per_token() const { return us / tokens; }
};

// What the engines of a batch have in common.
struct Setting {
  model::Decoder& decoder;
  Stream& stream;
  const MakeDraft& make_draft;
  const ModelDraftOptions& options;
  std::int32_t batch = 0;
  std::vector<engine::Request> requests;
  std::vector<Ids> outputs = {};  // without drafts

  engine::EngineOptions engine_options() const {
    engine::EngineOptions engine = options.common.engine;
    engine.max_num_seqs = batch;
    engine.prefix_cache = engine::PrefixCache::kOff;
    const std::int64_t page_bytes =
        kv::kPageTokens * model::kv_token_bytes(decoder.spec(), engine.kv_dtype);
    engine.kv_cache_bytes = std::min(engine.kv_cache_bytes, num_pages() * page_bytes);
    return engine;
  }
  // Tokens of a request, which include the drafts of its last step.
  std::int64_t num_tokens() const {
    return std::ssize(requests.front().prompt_ids) +
           std::int64_t{requests.front().sampling.max_new_tokens};
  }
  std::int64_t num_pages() const { return batch * (kv::pages_for_tokens(num_tokens()) + 1); }
};

// An engine that decodes the requests, with one number of guesses or without.
class Contender {
 public:
  static constexpr std::int32_t kNone = -1;

  Contender(const Setting& setting, double agreement, std::int32_t depth)
      : agreement(agreement),
        depth(depth),
        setting_(setting),
        engine_(setting.decoder, setting.stream, with_drafts()) {}

  // Submits the requests and computes their prompts and the first tokens.
  void begin();
  // Decodes until the round has had `num_tokens` tokens, or an output has ended.
  void advance_to(std::int64_t num_tokens);
  // Ends the round.
  Turns end();
  bool outputs_are_equal() const { return outputs_are_equal_; }

  const double agreement;
  const std::int32_t depth;  // or kAdaptiveDepth, kNone

 private:
  static constexpr int kFirstSteps = 2;  // in which the draft model reads the prompts

  engine::EngineOptions with_drafts();
  void step();
  Turns totals() const;

  const Setting& setting_;
  std::unique_ptr<BenchedDraft> benched_;
  std::optional<PlantedModel> planted_;
  std::optional<drafts::Drafter> drafter_;
  engine::Engine engine_;
  std::vector<engine::RequestId> ids_;
  bool is_over_ = false;  // an output has ended
  bool outputs_are_equal_ = true;
  Turns before_;
  std::int64_t tokens_before_ = 0;
};

engine::EngineOptions Contender::with_drafts() {
  engine::EngineOptions engine = setting_.engine_options();
  if (depth == kNone) return engine;
  const bool is_adaptive = depth == kAdaptiveDepth;
  engine.max_drafts = is_adaptive ? setting_.options.common.max_drafts : depth;
  benched_ = setting_.make_draft(engine, setting_.num_tokens());
  planted_.emplace(benched_->model(),
                   agreement == kOwnGuesses ? std::nullopt : std::optional(agreement),
                   setting_.decoder.spec().vocab, setting_.requests.size());
  engine.draft_source = &drafter_.emplace(drafts::DrafterOptions{.method = drafts::Method::kModel,
                                                                 .max_drafts = engine.max_drafts,
                                                                 .is_adaptive = is_adaptive},
                                          nullptr, nullptr, &*planted_);
  benched_->set_options(engine);
  return engine;
}

void Contender::begin() {
  ids_.clear();
  is_over_ = false;
  std::int64_t prompt_tokens = engine_.stats().prefill_tokens;
  for (std::size_t i = 0; i < setting_.requests.size(); ++i) {
    engine::Request request = setting_.requests[i];
    prompt_tokens += std::ssize(request.prompt_ids);
    const Ids& output = setting_.outputs[i];
    request.on_token = [this, &output, next = std::size_t{0}](std::int32_t token) mutable {
      if (token != output[next++]) outputs_are_equal_ = false;
      return engine::TokenVerdict::kContinue;
    };
    ids_.push_back(engine_.submit(request));
    if (depth == kNone) continue;
    const auto number = static_cast<std::int64_t>(ids_.back());
    benched_->begin(number, setting_.requests[i]);
    planted_->begin(number, output, i);
  }
  while (engine_.stats().prefill_tokens < prompt_tokens) step();
  for (int i = 0; i < kFirstSteps; ++i) step();
  before_ = totals();
  tokens_before_ = engine_.stats().decode_tokens;
}

void Contender::step() {
  for (const engine::Completion& completion : engine_.step()) {
    if (completion.error.has_value()) throw Error(*completion.error);
    is_over_ = true;
  }
}

void Contender::advance_to(std::int64_t num_tokens) {
  while (!is_over_ && engine_.stats().decode_tokens - tokens_before_ < num_tokens) step();
}

Turns Contender::totals() const {
  const engine::EngineStats stats = engine_.stats();
  Turns totals{.us = as_double(stats.busy_us),
               .tokens = as_double(stats.decode_tokens),
               .steps = as_double(stats.steps),
               .sequence_steps = as_double(stats.decode_tokens - stats.accepted_tokens)};
  if (!planted_.has_value()) return totals;
  totals.pass_us = as_double(planted_->passes().us);
  totals.passes = as_double(planted_->passes().count);
  return totals;
}

Turns Contender::end() {
  const Turns now = totals();
  for (const engine::RequestId id : ids_) engine_.cancel(id);
  return {.us = now.us - before_.us,
          .tokens = now.tokens - before_.tokens,
          .steps = now.steps - before_.steps,
          .sequence_steps = now.sequence_steps - before_.sequence_steps,
          .pass_us = now.pass_us - before_.pass_us,
          .passes = now.passes - before_.passes};
}

using Rounds = std::vector<Turns>;  // of one engine

template <class Value>
double median_over(const Rounds& rounds, const Value& value) {
  std::vector<double> values;
  for (const Turns& turns : rounds) values.push_back(value(turns));
  return median(std::move(values));
}

MedianInterval speed_ratio(const Rounds& rounds, const Rounds& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    ratios.push_back(base[i].us_per_token() / rounds[i].us_per_token());
  }
  return median_interval(std::move(ratios));
}

double tokens_of(double agreement, std::int32_t depth) {
  double tokens = 1;
  for (double right = agreement; depth > 0; --depth, right *= agreement) tokens += right;
  return tokens;
}

// The costs of steps in a round, of all agreements.
struct RoundCosts {
  std::map<std::int32_t, double> verify_us = {};  // t(B (1 + d)) by d
  double pass_us = 0;                             // c
  double m_c = 0;                                 // M + C
  double c = 0;                                   // C

  double whole_us(std::int32_t depth) const { return verify_us.at(depth) + depth * pass_us; }
  void fit();  // sets m_c and c
};

class ModelDraftBench {
 public:
  ModelDraftBench(model::Decoder& decoder, Stream& stream, const MakeDraft& make_draft,
                  const ModelDraftOptions& options, std::int32_t batch);

  std::vector<ModelDraftRow> run();

 private:
  void record_outputs();
  void play_round(std::vector<Contender*>& order);
  ModelDraftRow make_row(std::size_t index) const;
  void compare_with_best(std::vector<ModelDraftRow>& rows) const;
  RoundCosts costs_of(std::size_t round) const;
  void set_formulas(std::vector<ModelDraftRow>& rows) const;

  const DraftBenchOptions& common_;
  Setting setting_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Contender>> contenders_;  // the first has no drafts
  std::vector<Rounds> rounds_;                          // of each
};

ModelDraftBench::ModelDraftBench(model::Decoder& decoder, Stream& stream,
                                 const MakeDraft& make_draft, const ModelDraftOptions& options,
                                 std::int32_t batch)
    : common_(options.common),
      setting_{.decoder = decoder,
               .stream = stream,
               .make_draft = make_draft,
               .options = options,
               .batch = batch,
               .requests = make_requests(
                   make_fixed_workload(batch, common_.prompt_tokens,
                                       common_.output_tokens + 4 * (common_.max_drafts + 1)),
                   decoder.spec(), common_.seed)},
      random_(common_.seed) {
  record_outputs();
  contenders_.push_back(std::make_unique<Contender>(setting_, kOwnGuesses, Contender::kNone));
  for (const double agreement : common_.agreements) {
    for (const std::int32_t depth : options.depths) {
      contenders_.push_back(std::make_unique<Contender>(setting_, agreement, depth));
    }
  }
  rounds_.resize(contenders_.size());
}

void ModelDraftBench::record_outputs() {
  engine::Engine engine(setting_.decoder, setting_.stream, setting_.engine_options());
  setting_.outputs = decode_together(engine, setting_.requests).outputs;
}

void ModelDraftBench::play_round(std::vector<Contender*>& order) {
  for (Contender* const contender : order) contender->begin();
  const std::int64_t per_turn = setting_.options.tokens_per_turn;
  for (std::int64_t done = 0; done < common_.output_tokens;) {
    done = std::min(done + per_turn, common_.output_tokens);
    shuffle_turns(order, random_);
    for (Contender* const contender : order) contender->advance_to(done * setting_.batch);
  }
}

std::vector<ModelDraftRow> ModelDraftBench::run() {
  std::vector<Contender*> order;
  for (const auto& contender : contenders_) order.push_back(contender.get());
  for (int round = -kLearningRounds; round < setting_.options.num_rounds; ++round) {
    if (common_.on_run) {
      common_.on_run(counted(std::int64_t{setting_.batch}, "sequence") + ", " +
                     (round < 0 ? "learning"
                                : "round " + std::to_string(round + 1) + " of " +
                                      std::to_string(setting_.options.num_rounds)));
    }
    play_round(order);
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      const Turns turns = contenders_[i]->end();
      if (round >= 0) rounds_[i].push_back(turns);
    }
  }
  std::vector<ModelDraftRow> rows;
  for (std::size_t i = 1; i < contenders_.size(); ++i) rows.push_back(make_row(i));
  compare_with_best(rows);
  set_formulas(rows);
  return rows;
}

double step_us(const Rounds& rounds) {
  return median_over(rounds, [](const Turns& turns) { return turns.us / turns.steps; });
}

ModelDraftRow ModelDraftBench::make_row(std::size_t index) const {
  const Contender& contender = *contenders_[index];
  const Rounds& rounds = rounds_[index];
  ModelDraftRow row{.batch = setting_.batch,
                    .agreement = contender.agreement,
                    .depth = contender.depth,
                    .step_us = step_us(rounds),
                    .plain_step_us = step_us(rounds_.front()),
                    .ratio = speed_ratio(rounds, rounds_.front()),
                    .outputs_are_equal =
                        contender.outputs_are_equal() && contenders_.front()->outputs_are_equal()};
  double tokens = 0;
  double sequence_steps = 0;
  for (const Turns& turns : rounds) {
    tokens += turns.tokens;
    sequence_steps += turns.sequence_steps;
  }
  row.tokens_per_step = tokens / sequence_steps;
  row.pass_us = median_over(rounds, [](const Turns& turns) {
    return turns.passes > 0 ? turns.pass_us / turns.passes : 0;
  });
  return row;
}

// rows[i] is of contenders_[i + 1].
void ModelDraftBench::compare_with_best(std::vector<ModelDraftRow>& rows) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].depth != kAdaptiveDepth) continue;
    std::size_t best = 0;
    double best_ratio = 1;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const bool is_rival =
          rows[k].depth != kAdaptiveDepth && rows[k].agreement == rows[i].agreement;
      if (!is_rival || rows[k].ratio.median <= best_ratio) continue;
      best = k + 1;
      best_ratio = rows[k].ratio.median;
    }
    rows[i].of_best = speed_ratio(rounds_[i + 1], rounds_[best]);
    rows[i].best_depth = best == 0 ? 0 : contenders_[best]->depth;
  }
}

RoundCosts ModelDraftBench::costs_of(std::size_t round) const {
  std::map<std::int32_t, std::vector<double>> verify_us;
  double pass_us = 0;
  double passes = 0;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    const std::int32_t depth = contenders_[i]->depth;
    if (depth == kAdaptiveDepth) continue;
    const Turns& turns = rounds_[i][round];
    verify_us[std::max(depth, 0)].push_back((turns.us - turns.pass_us) / turns.steps);
    pass_us += turns.pass_us;
    passes += turns.passes;
  }
  RoundCosts costs{.pass_us = passes > 0 ? pass_us / passes : 0};
  for (auto& [depth, us] : verify_us) costs.verify_us[depth] = median(std::move(us));
  return costs;
}

// M + C + C d is fitted to the times of steps and their passes by least squares.
void RoundCosts::fit() {
  double count = 0;
  double sum_d = 0;
  double sum_dd = 0;
  double sum_us = 0;
  double sum_dus = 0;
  for (const auto& [depth, us] : verify_us) {
    count += 1;
    sum_d += depth;
    sum_dd += depth * depth;
    sum_us += whole_us(depth);
    sum_dus += depth * whole_us(depth);
  }
  const double spread = count * sum_dd - sum_d * sum_d;
  c = spread > 0 ? (count * sum_dus - sum_d * sum_us) / spread : 0;
  m_c = (sum_us - c * sum_d) / count;
}

void ModelDraftBench::set_formulas(std::vector<ModelDraftRow>& rows) const {
  std::vector<RoundCosts> costs;
  for (std::size_t round = 0; round < rounds_.front().size(); ++round) {
    costs.push_back(costs_of(round));
    costs.back().fit();
  }
  for (ModelDraftRow& row : rows) {
    if (row.agreement == kOwnGuesses || row.depth == kAdaptiveDepth) continue;
    const double tokens = tokens_of(row.agreement, row.depth);
    std::vector<double> expected;
    std::vector<double> simple;
    for (const RoundCosts& of_round : costs) {
      expected.push_back(tokens * of_round.verify_us.at(0) / of_round.whole_us(row.depth));
      simple.push_back(tokens * of_round.m_c / (of_round.m_c + of_round.c * row.depth));
    }
    row.expected_ratio = median(std::move(expected));
    row.formula_ratio = median(std::move(simple));
  }
}

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

std::vector<ModelDraftRow> bench_model_drafts(model::Decoder& decoder, Stream& stream,
                                              const MakeDraft& make_draft,
                                              const ModelDraftOptions& options) {
  CAPTION_CHECK(
      options.num_rounds >= 1 && options.tokens_per_turn >= 1 && options.common.output_tokens >= 1,
      "bench: nothing to decode");
  std::vector<ModelDraftRow> rows;
  for (const std::int32_t batch : options.common.batches) {
    ModelDraftBench bench(decoder, stream, make_draft, options, batch);
    for (ModelDraftRow& row : bench.run()) rows.push_back(row);
  }
  return rows;
}

std::string to_table(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  constexpr std::size_t kWidth = 12;
  constexpr std::size_t kIntervalWidth = 21;
  const auto column = [](const std::string& text) { return pad_left(text, kWidth); };
  const auto interval = [](const MedianInterval& ratio) {
    return pad_left(format_number(ratio.median, 3) + " [" + format_number(ratio.low, 3) + ", " +
                        format_number(ratio.high, 3) + "]",
                    kIntervalWidth);
  };
  const auto predicted = [&](const ModelDraftRow& row, double ratio) {
    if (ratio <= 0) return column("-") + column("-");
    return column(format_number(ratio)) + column(format_percent(row.ratio.median / ratio));
  };
  std::string text = subject + "\n\n";
  for (const char* name :
       {"sequences", "agreement", "depth", "tokens/step", "step us", "pass us"}) {
    text += column(name);
  }
  text += pad_left("ratio", kIntervalWidth) + column("by costs") + column("of it") +
          column("formula") + column("of it") + pad_left("of best", kIntervalWidth) +
          column("best") + column("outputs") + "\n";
  for (const ModelDraftRow& row : rows) {
    const bool is_chosen = row.depth == kAdaptiveDepth;
    text += column(std::to_string(row.batch)) +
            column(row.agreement == kOwnGuesses ? "own" : format_number(row.agreement, 2)) +
            column(is_chosen ? "chosen" : std::to_string(row.depth)) +
            column(format_number(row.tokens_per_step)) + column(format_number(row.step_us)) +
            column(format_number(row.pass_us)) + interval(row.ratio) +
            predicted(row, row.expected_ratio) + predicted(row, row.formula_ratio) +
            (is_chosen ? interval(row.of_best) +
                             column(row.best_depth == 0 ? "none" : std::to_string(row.best_depth))
                       : pad_left("", kIntervalWidth + kWidth)) +
            column(row.outputs_are_equal ? "equal" : "DIFFER") + "\n";
  }
  std::string plain;
  std::int32_t batch = 0;
  for (const ModelDraftRow& row : rows) {
    if (std::exchange(batch, row.batch) == row.batch) continue;
    plain += (plain.empty() ? "" : ", ") + format_number(row.plain_step_us) + " us for " +
             counted(std::int64_t{row.batch}, "sequence");
  }
  return text + "\nsteps without drafts: " + plain +
         "; intervals of 95 %\nagreement: the probability that a guess is right if those before it "
         "are, or the model's own;\nby costs: T t(B) / (t(B (1 + d)) + d c), with t(n) the time of "
         "a step of n tokens, c of a pass;\nformula: T (M + C) / (M + C (1 + d)), M and C fitted "
         "to "
         "the same times; of best: the chosen depth's speed\nrelative to that of the best fixed "
         "depth, or of none\n";
}

std::string to_json(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  JsonWriter json;
  const auto add_interval = [&](const char* name, const MedianInterval& ratio) {
    json.begin_object(name)
        .add("median", ratio.median)
        .add("low", ratio.low)
        .add("high", ratio.high)
        .add("rounds", ratio.count)
        .end_object();
  };
  json.begin_object().add("model", subject).begin_list("rows");
  for (const ModelDraftRow& row : rows) {
    json.begin_object()
        .add("sequences", std::int64_t{row.batch})
        .add("agreement", row.agreement)
        .add("depth", std::int64_t{row.depth})
        .add("tokens_per_step", row.tokens_per_step)
        .add("step_us", row.step_us)
        .add("pass_us", row.pass_us)
        .add("plain_step_us", row.plain_step_us);
    add_interval("ratio", row.ratio);
    json.add("expected_ratio", row.expected_ratio).add("formula_ratio", row.formula_ratio);
    if (row.depth == kAdaptiveDepth) {
      add_interval("of_best", row.of_best);
      json.add("best_depth", std::int64_t{row.best_depth});
    }
    json.add("outputs_are_equal", row.outputs_are_equal).end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
