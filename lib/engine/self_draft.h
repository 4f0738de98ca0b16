// engine/self_draft.h: an engine's own decoder, without some of its layers, guesses the tokens of
// its sequences, for drafts::Drafter.
//
// A pass computes the last token of a sequence, then its guesses one by one, over the layers that
// are left. Earlier tokens have K and V of all layers in the engine's pages, since the steps that
// verified them computed them whole; what a pass needs is one token, and no pages are kept for it.
// The K and V that a pass writes go to slots of the sequence's last page that hold no token, if no
// other sequence and no cache knows this page, and from its end on to pages that belong to no
// sequence (num_guess_pages()). The step that verifies the guesses writes all of these slots again.
// Steps, prompts, adapters, sampling parameters and M-RoPE positions are those of the engine.
//
// The layers come from a LayerChoice. Until it is made, the captions under way are searched
// (drafts/layer_search.h): pieces of kTextTokens tokens of their outputs are computed in copies of
// their pages. A search takes about as long as one caption does.
// Source: Zhang et al., Draft & Verify, arXiv:2309.08168; Xia et al., SWIFT, arXiv:2410.06916.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "drafts/draft_model.h"
#include "drafts/layer_choice.h"
#include "engine/options.h"

namespace caption::engine {

struct DraftedEngine;

// The pages that an engine with a self-draft has besides those of its budget: what max_num_seqs
// sequences of max_drafts guesses can fill; otherwise 0.
std::int64_t num_guess_pages(const EngineOptions& options);

// EngineOptions::self_draft of one engine, and a Drafter's model. Used by one thread at a time, the
// engine's, while the engine exists.
class SelfDraft final : public drafts::DraftModel {
 public:
  explicit SelfDraft(std::shared_ptr<drafts::LayerChoice> choice);
  ~SelfDraft() override;

  // Called by the engine. Throws Error(kUnavailable) for a decoder that cannot leave out layers,
  // Error(kUsage) for compressed attention, Error(kInternal) for layers that the decoder has not.
  void attach(const DraftedEngine& engine, const EngineOptions& options);

  drafts::GuessSource source() const override { return drafts::GuessSource::kSelf; }
  // Searches for the layers, as far as the outputs of the sequences allow it.
  std::int64_t prepare(std::span<const drafts::DraftQuery> queries, bool may_compute) override;
  double relative_cost() const override;
  // How far the search for the layers is; nullopt when the layers are known or attach() was not
  // called.
  std::optional<drafts::UnfinishedSearch> unfinished_search() const;
  // 1, or 0 before the layers are known, if no layer is worth leaving out, and for a sequence whose
  // last page another sequence or the prefix cache knows.
  std::int64_t num_missing(std::int64_t sequence,
                           std::span<const std::int32_t> output) const override;
  drafts::StepLoad guess(std::span<const drafts::ModelQuery> queries,
                         std::span<drafts::Guess> guesses) override;
  void end(std::int64_t sequence) override;

  static constexpr std::int64_t kTextTokens = 8;

 private:
  struct State;
  const std::shared_ptr<drafts::LayerChoice> choice_;
  std::unique_ptr<State> state_;  // null until attach()
};

}  // namespace caption::engine
