// bench/model_draft_bench.h: the speed of decoding with drafts of a model, a second decoder or a
// part of the decoder itself, that agrees with a planted probability.
//
// The model computes its passes, and each of its guesses is then replaced by the token that the
// output, recorded before without drafts, has there, or by another one (bench/internal/
// run_lengths.h). Each number of guesses, the chosen one and decoding without drafts have an engine
// of their own for each agreement. The engines live through all rounds and take turns in random
// order; the first kLearningRounds rounds are not counted: there a drafter learns the times of
// steps and the agreement. In a round each engine gets the same prompts again, computes them, and
// decodes output_tokens tokens of each sequence, besides which the requests have further tokens to
// come, so that no output's end counts.
//
// With the agreement alpha, d guesses give T = 1 + alpha + ... + alpha^d tokens of each of B
// sequences in a step (Leviathan et al., arXiv:2211.17192, section 3.3). With t(n) the time of a
// step of n tokens, and c that of a pass of the model, the speed relative to steps without guesses
// is T t(B) / (t(B (1 + d)) + d c). t and c are those of a round, of all agreements, on which they
// do not depend, and the median over the rounds counts. Where t is linear, and M is spent once in a
// step and C for each row and its guess, this is T (M + C) / (M + C (1 + d)). M + C is the measured
// time of a step without guesses: it stands for the time per token without them in the numerator,
// and the formula is 1 for no guess. C, with the time of a pass, is the slope of the line through
// that time that is nearest to those of the steps with guesses, by least squares.
//
// Without a planted agreement (kOwnGuesses) the guesses are the model's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "bench/draft_bench.h"
#include "bench/statistics.h"
#include "drafts/draft_model.h"
#include "drafts/layer_search.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

inline constexpr double kOwnGuesses = -1;
inline constexpr std::int32_t kAdaptiveDepth = 0;
inline constexpr int kLearningRounds = 4;

// A draft model under measurement, of one engine.
class BenchedDraft {
 public:
  virtual ~BenchedDraft() = default;
  virtual drafts::DraftModel& model() = 0;
  // Changes what the engine's options must say of it.
  virtual void set_options(engine::EngineOptions& /*options*/) {}
  // A request was submitted under this number (drafts::DraftQuery::sequence).
  virtual void begin(std::int64_t /*sequence*/, const engine::Request& /*request*/) {}
};

// Makes a draft model for an engine with these options, whose sequences have at most num_tokens
// tokens each.
using MakeDraft = std::function<std::unique_ptr<BenchedDraft>(const engine::EngineOptions& options,
                                                              std::int64_t num_tokens)>;

// The decoder itself without `left_out`, one layer or more.
MakeDraft make_self_draft(const std::vector<std::int32_t>& left_out);
// A second decoder with the same vocabulary, which gets the same prompts; borrowed with `stream`.
// `cost` is DraftModel::relative_cost().
MakeDraft make_second_decoder(model::Decoder& decoder, Stream& stream, double cost);

// The layers that a decoder finds to leave out (drafts/layer_search.h).
struct LayersFound {
  drafts::LeftOutLayers layers;
  double seconds = 0;  // time that the passes for it took
};
// Decodes requests with random content, as many as the search takes. Throws as bench_drafts(), and
// Error(kUsage) where outputs of so few tokens do not suffice.
LayersFound find_layers(model::Decoder& decoder, Stream& stream, const DraftBenchOptions& options);

struct ModelDraftRow {
  std::int32_t batch = 0;
  double agreement = 0;        // or kOwnGuesses
  std::int32_t depth = 0;      // guesses of a sequence in every step, or kAdaptiveDepth
  double tokens_per_step = 0;  // that a sequence gets, on average
  double step_us = 0;          // median over the rounds of the mean, with the passes for its drafts
  double pass_us = 0;          // median over the rounds of the mean; 0 without passes
  double plain_step_us = 0;    // step_us without drafts
  MedianInterval ratio = {};   // speed relative to that without drafts, over the rounds
  // The ratios that the two formulas above give; 0 for kAdaptiveDepth and kOwnGuesses.
  double expected_ratio = 0;  // the formula with t and c
  double formula_ratio = 0;   // the formula with M and C
  // kAdaptiveDepth: the speed relative to that of the fixed depth, or none, whose median speed over
  // the rounds is the highest; its depth, 0 for none.
  MedianInterval of_best = {};
  std::int32_t best_depth = 0;
  bool outputs_are_equal = true;  // whether every round's outputs are those without drafts
};

struct ModelDraftOptions {
  DraftBenchOptions common;  // agreements are in [0, 1), or kOwnGuesses; repeat does not count
  std::vector<std::int32_t> depths = {1, 2, 4, 8, kAdaptiveDepth};  // at most common.max_drafts
  int num_rounds = 8;                                               // >= 1
  std::int64_t tokens_per_turn = 16;                                // tokens of each sequence
};

// Throws as bench_drafts().
std::vector<ModelDraftRow> bench_model_drafts(model::Decoder& decoder, Stream& stream,
                                              const MakeDraft& make_draft,
                                              const ModelDraftOptions& options);

// A table; `subject` is the heading.
std::string to_table(const std::string& subject, const std::vector<ModelDraftRow>& rows);
std::string to_json(const std::string& subject, const std::vector<ModelDraftRow>& rows);

}  // namespace caption::bench
