// bench/draft_replay.h: the speed of an engine with several kinds of drafts, for the same requests.
//
// Runs one after the other differ by what else the machine does meanwhile, which is often more than
// what drafts gain or lose. In a round here each method has an engine of its own, and the engines
// take turns: each steps until it has given a further tokens_per_turn tokens, so that every turn is
// soon after or before the turns of the other methods with the same tokens. The methods come in
// another random order each time, none twice in a row: its weights and pages would be in the caches
// then. One round gives one ratio of the times of two methods; rounds give the ratio's median and
// its interval (bench/statistics.h).
//
// A round begins like a run: with an empty prefix cache, without measured times, and with the texts
// that were known before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "base/default_seed.h"
#include "bench/statistics.h"
#include "drafts/drafter.h"
#include "drafts/layer_choice.h"
#include "engine/draft_decoder.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

struct ReplayedRequest {
  engine::Request request;  // without on_token and process_logits
  std::uint64_t topic = 0;  // Drafter::begin()
  std::optional<drafts::Sketch> look = {};
  // Method::kModel: what the draft model reads (DraftDecoder::begin()).
  std::optional<engine::Request> draft_prompt = {};
};

struct ReplayedMethod {
  drafts::DrafterOptions how;                        // Method::kNone: no drafts
  std::shared_ptr<drafts::LayerChoice> layers = {};  // Method::kSelf
  // Method::kModel: makes a draft model for an engine with these options.
  std::function<std::unique_ptr<engine::DraftDecoder>(const engine::EngineOptions&)> make_model =
      {};
};

struct ReplayOptions {
  engine::EngineOptions engine;  // each method has these, and its own drafts
  int num_rounds = 1;
  std::int64_t tokens_per_turn = 256;
  std::uint64_t seed = kDefaultSeed;  // orders of turns are drawn with it
  // Method::kArchive: the memory of TokenArchive and of NearestTexts, and the texts that the
  // archive holds at the start of a round, from the least to the most useful.
  std::int64_t archive_bytes = 64LL << 20;
  std::int64_t nearest_bytes = 2LL << 20;
  std::vector<std::vector<std::int32_t>> known_texts = {};
  std::function<void(int round)> on_round = {};  // called before each; may be empty
};

// One method's figures.
struct ReplayedRow {
  std::vector<engine::EngineStats> rounds;  // one engine a round
  std::int64_t num_output_tokens = 0;       // all requests give as many
  bool outputs_are_equal = true;            // whether every round's are the first method's

  // The speed relative to `base` in all steps, and in those that computed no prompts.
  MedianInterval speed_ratio(const ReplayedRow& base) const;
  MedianInterval decode_speed_ratio(const ReplayedRow& base) const;
};

// Returns a row for each method. Throws the error of a request that fails, and as
// engine::Engine().
std::vector<ReplayedRow> replay_drafts(model::Decoder& decoder, Stream& stream,
                                       std::span<const ReplayedRequest> requests,
                                       std::span<const ReplayedMethod> methods,
                                       const ReplayOptions& options);

}  // namespace caption::bench
