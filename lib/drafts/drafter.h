// drafts/drafter.h: drafts from an archive of texts, from the sequence itself and from a smaller
// model, as many as pay.
//
// With R sequences and k drafts, of which E are expected to be right, a step of time t(R + k) gives
// R + E tokens. Drafts are taken in descending order of the probability that they and those before
// them are right, as many as make the time per token least; in a step that also computes prompts,
// as many as save more of that time than they add. Where a step is bound by the bytes of the
// weights, a further token is nearly free; where it is bound by arithmetic, none pays.
// Probabilities (Acceptance) and times (StepCosts) are measured while the engine runs.
//
// In the step that ends its prompt, a sequence can have the whole text of the nearest thing as
// drafts: where the things are near-duplicates, that step gives the whole output. As many of its
// tokens are taken as save more time in later steps than they add to this one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "drafts/draft_counts.h"
#include "drafts/draft_model.h"
#include "drafts/draft_source.h"
#include "drafts/nearest_texts.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

enum class Method {
  kNone,
  kNgram,  // what followed the same tokens earlier in the prompt and output
  // What followed them in the archive or in the texts of the nearest things, or as kNgram,
  // whichever was right more often; after a prompt also the whole text of the nearest thing.
  kArchive,
  kModel,  // what the draft model says and nothing else
  kSelf,   // likewise, and the draft model is a part of the target (engine/self_draft.h)
};

struct DrafterOptions {
  Method method = Method::kArchive;
  std::int32_t max_drafts = 8;  // drafts of a sequence in a step, >= 1
  bool is_adaptive = true;      // false: always as many as there are guesses, up to max_drafts
};

// For one engine.
class Drafter final : public DraftSource {
 public:
  // Several drafters may share `archive` and `nearest`, which get the outputs of all; null: none is
  // kept. The draft model, borrowed or null, guesses where it is likelier right than the other
  // sources and its passes pay (drafts/model_depth.h). After an exception other than
  // Error(kUnavailable | kInternal) there is one warning, and it is not asked again.
  Drafter(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
          std::shared_ptr<NearestTexts> nearest = nullptr, DraftModel* model = nullptr);
  ~Drafter() override;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;

  // What the thing that a sequence is about looks like, and the topic of its text (NearestTexts).
  // Before its first proposal; without this there are no nearest texts.
  void begin(std::int64_t sequence, std::uint64_t topic, const Sketch& look);

  void propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) override;
  void propose_after_prompts(std::span<const DraftQuery> queries, std::int64_t num_decoding,
                             std::int64_t num_prompt_tokens) override;
  void observe(std::int64_t sequence, std::int64_t num_computed, std::int64_t num_accepted,
               bool was_refused) override;
  void observe_step(const StepLoad& load) override;
  void end(std::int64_t sequence, std::span<const std::int32_t> output) override;

  // Whether the draft model has failed, or was not asked, but for trials, in the latest
  // kStepsToRest steps in which it could have been, or fewer in which it cannot pay: what it reads
  // is then computed for little. True without one.
  bool is_model_resting() const;

  const DraftCounts& counts() const;
  const DraftedSteps& steps() const;
  // The counts of a sequence that has ended, which are kept until they are taken.
  DraftCounts take_counts(std::int64_t sequence);

  static constexpr std::int64_t kStepsToRest = 128;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// The most tokens of a text that can be copied in a step, when an output has at most
// max_new_tokens: their logits, [tokens, vocab] f32, take at most 64 MiB. 0 for a method that
// copies none.
std::int64_t most_copied_tokens(Method method, std::int64_t max_new_tokens, std::int64_t vocab);

}  // namespace caption::drafts
