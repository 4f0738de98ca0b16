// engine/draft_decoder.h: a second, smaller decoder that guesses the tokens of an engine's
// sequences, for drafts::Drafter.
//
// It has pages of its own: its prompts have other lengths than those of the target, as it has
// another chat template and other vision tokens, or none. Its vocabulary may be another one: tokens
// that it lacks are translated to several of its own, and a token without a translation ends the
// guesses for the sequence. A sequence's pages keep what was computed for it; a pass computes what
// is new and drops guesses that were refused.
// Where pages are scarce, those of the sequence that was asked for longest ago are freed, and
// computed again when it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/stream.h"
#include "drafts/draft_model.h"
#include "engine/engine.h"
#include "model/decoder.h"
#include "text/vocabulary_match.h"

namespace caption::engine {

struct DraftDecoderOptions {
  std::int32_t max_num_seqs = 1;  // sequences of a pass: as many as the engine's
  std::int32_t max_num_batched_tokens = scheduler::kDefaultMaxBatchedTokens;  // tokens of a pass
  std::int64_t kv_cache_bytes = 0;                                            // memory of all pages
  DType kv_dtype = DType::kF32;
  double relative_cost = 1;  // DraftModel::relative_cost()
};

// Used by one thread at a time, the engine's.
class DraftDecoder final : public drafts::DraftModel {
 public:
  // `decoder` and `stream`, of the decoder's device, are borrowed; the other vocabulary of the
  // match is the decoder's. Throws as Engine::Engine().
  DraftDecoder(model::Decoder& decoder, Stream& stream, const DraftDecoderOptions& options,
               text::VocabularyMatch vocabulary);
  ~DraftDecoder() override;

  // Gives a sequence of the engine its prompt for this decoder: prompt_ids, positions and vision
  // tokens of `prompt`, whose other members do not count. A sequence without one, or with one that
  // is too long, gets no guesses. Throws Error(kInternal) for an inconsistent prompt.
  void begin(std::int64_t sequence, Request prompt);

  double relative_cost() const override;
  std::int64_t num_missing(std::int64_t sequence,
                           std::span<const std::int32_t> output) const override;
  drafts::StepLoad guess(std::span<const drafts::ModelQuery> queries,
                         std::span<drafts::Guess> guesses) override;
  void end(std::int64_t sequence) override;

  // Pages that hold tokens now.
  std::int64_t num_used_pages() const;
  std::int64_t num_pages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::engine
