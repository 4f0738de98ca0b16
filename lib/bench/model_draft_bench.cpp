#include "bench/model_draft_bench.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
#include "bench/internal/planted_model.h"
#include "bench/internal/turns.h"
#include "bench/workload.h"
#include "drafts/drafter.h"
#include "kv/page_pool.h"

namespace caption::bench {
namespace {

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
  std::vector<Ids> outputs = {};  // outputs without drafts

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

  Contender(const Setting& setting, double planted_agreement, std::int32_t num_guesses)
      : agreement(planted_agreement),
        depth(num_guesses),
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
  static constexpr int kFirstSteps = 2;  // steps in which the draft model reads the prompts

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
    ids_.push_back(submit(engine_, request));
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

using Rounds = std::vector<Turns>;  // what one engine did in each round

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
  double m_c = 0;                                 // M + C, the time of a step without guesses
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
  std::vector<Rounds> rounds_;                          // parallel to contenders_
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

// rows[i] has the figures of contenders_[i + 1].
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

// C is fitted by least squares to the times of steps with guesses and their passes.
void RoundCosts::fit() {
  m_c = whole_us(0);
  double sum_dd = 0;
  double sum_dus = 0;
  for (const auto& [depth, us] : verify_us) {
    sum_dd += depth * depth;
    sum_dus += depth * (whole_us(depth) - m_c);
  }
  c = sum_dd > 0 ? sum_dus / sum_dd : 0;
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

}  // namespace caption::bench
