// bench/model_draft_bench.h: the speed of decoding with drafts of a model, a second decoder or a
// part of the decoder itself, that agrees with a planted probability.
//
// The model computes its passes, and each of its guesses is then replaced: by the token that the
// output has there with probability `agreement`, otherwise by another one. Outputs are recorded
// without drafts before. With the agreement alpha, d guesses give T = 1 + alpha + ... + alpha^d
// tokens in a step of time M + C (1 + d), where M is spent once and C for each row and its guess,
// so that the speed relative to steps without guesses is T (M + C) / (M + C (1 + d)) (Leviathan et
// al., arXiv:2211.17192, section 3.3). M + C and C are fitted to the mean times of steps of all
// runs with fixed depths, which do not depend on alpha.
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
#include "drafts/draft_model.h"
#include "drafts/layer_search.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

inline constexpr double kOwnGuesses = -1;
inline constexpr std::int32_t kAdaptiveDepth = 0;

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

// Makes a draft model for an engine with these options.
using MakeDraft =
    std::function<std::unique_ptr<BenchedDraft>(const engine::EngineOptions& options)>;

// The decoder itself without `left_out`, one layer or more.
MakeDraft make_self_draft(const std::vector<std::int32_t>& left_out);
// A second decoder with the same vocabulary, which gets the same prompts; borrowed with `stream`.
// `cost` is DraftModel::relative_cost().
MakeDraft make_second_decoder(model::Decoder& decoder, Stream& stream, double cost);

// The layers that a decoder finds to leave out (drafts/layer_search.h).
struct LayersFound {
  drafts::LeftOutLayers layers;
  double seconds = 0;  // of the passes for it
};
// Decodes requests with random content, as many as the search takes. Throws as bench_drafts(), and
// Error(kUsage) where outputs of so few tokens do not suffice.
LayersFound find_layers(model::Decoder& decoder, Stream& stream, const DraftBenchOptions& options);

struct ModelDraftRow {
  std::int32_t batch = 0;
  double agreement = 0;    // or kOwnGuesses
  std::int32_t depth = 0;  // guesses of a sequence in every step, or kAdaptiveDepth
  // The run of the median ratio.
  double tokens_per_s = 0;
  double plain_tokens_per_s = 0;  // without drafts, in the run before it
  double tokens_per_step = 0;     // that a sequence gets, on average
  double step_us = 0;             // mean, with the passes for its drafts
  // By the formula above; of kAdaptiveDepth the best of depths 0 to max_drafts; 0 for kOwnGuesses.
  double formula_ratio = 0;
  bool outputs_are_equal = true;  // of all runs, to those without drafts

  double ratio() const { return plain_tokens_per_s > 0 ? tokens_per_s / plain_tokens_per_s : 0; }
};

struct ModelDraftOptions {
  DraftBenchOptions common;  // agreements: of [0, 1), or kOwnGuesses
  std::vector<std::int32_t> depths = {1, 2, 4, 8, kAdaptiveDepth};  // at most common.max_drafts
};

// Throws as bench_drafts().
std::vector<ModelDraftRow> bench_model_drafts(model::Decoder& decoder, Stream& stream,
                                              const MakeDraft& make_draft,
                                              const ModelDraftOptions& options);

// A table; `subject` is the heading.
std::string to_table(const std::string& subject, const std::vector<ModelDraftRow>& rows);
std::string to_json(const std::string& subject, const std::vector<ModelDraftRow>& rows);

}  // namespace caption::bench
