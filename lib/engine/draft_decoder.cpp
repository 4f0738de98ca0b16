#include "engine/draft_decoder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/internal/page_memory.h"
#include "engine/internal/sequence.h"
#include "engine/internal/softmax_peak.h"
#include "engine/internal/step_runner.h"
#include "engine/internal/validate.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"

namespace caption::engine {
namespace {

using drafts::Guess;
using drafts::ModelQuery;

EngineOptions to_engine_options(const DraftDecoderOptions& options) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .kv_cache_bytes = options.kv_cache_bytes,
          .kv_dtype = options.kv_dtype};
}

// What is known of a sequence. `sequence.tokens` are the prompt, the output and the guesses after
// it, in ids of the draft model, of which the first num_computed are in the pages.
struct Drafted {
  explicit Drafted(kv::PagePool& pool) : pages(pool) {}

  Sequence sequence;
  kv::PageTable pages;
  std::int64_t num_computed = 0;
  std::int64_t last_asked = 0;  // number of the pass
};

}  // namespace

struct DraftDecoder::State {
  State(model::Decoder& decoder, Stream& stream, const DraftDecoderOptions& the_options,
        text::VocabularyMatch match)
      : options(the_options),
        vocabulary(std::move(match)),
        pool(num_affordable_pages(decoder.spec(), to_engine_options(options))),
        runner(decoder, stream, to_engine_options(options), pool.num_pages()) {}

  // Returns how many of the sequence's tokens after the prompt equal those to which `output` and
  // `followers` translate.
  std::int64_t num_equal(const Drafted& drafted, std::span<const std::int32_t> output,
                         std::span<const std::int32_t> followers) const;
  // Sets the sequence's tokens to the translation of the query's and keeps in its pages what both
  // begin with, without the last token, which is always computed. Returns false if a token cannot
  // be translated or the model has too few positions.
  bool set_tokens(const ModelQuery& query, Drafted& drafted) const;
  // Takes slots for the tokens to be computed, from sequences that were not asked for in this pass
  // if need be.
  bool take_slots(Drafted& drafted);
  bool free_oldest();
  void compute();
  void compute_chunk();
  Guess guess_of(const Drafted& drafted, std::int64_t row);

  struct Asked {
    Drafted* drafted = nullptr;
    Guess* guess = nullptr;
  };

  const DraftDecoderOptions options;
  const text::VocabularyMatch vocabulary;
  kv::PagePool pool;
  StepRunner runner;
  std::unordered_map<std::int64_t, std::unique_ptr<Drafted>> sequences;
  std::int64_t num_passes = 0;
  std::vector<Asked> asked;   // those of this pass with tokens left to be computed
  std::vector<Asked> ending;  // sequences whose last token the chunk computes
  std::vector<kv::PageCopy> copies;
};

std::int64_t DraftDecoder::State::num_equal(const Drafted& drafted,
                                            std::span<const std::int32_t> output,
                                            std::span<const std::int32_t> followers) const {
  const std::span<const std::int32_t> held = drafted.sequence.output();
  std::size_t count = 0;
  const auto skip_equal = [&](std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      const std::span<const std::int32_t> ids = vocabulary.to_other(token);
      if (ids.empty()) return false;
      for (const std::int32_t id : ids) {
        if (count == held.size() || held[count] != id) return false;
        ++count;
      }
    }
    return true;
  };
  if (skip_equal(output)) skip_equal(followers);
  return static_cast<std::int64_t>(count);
}

bool DraftDecoder::State::set_tokens(const ModelQuery& query, Drafted& drafted) const {
  Sequence& sequence = drafted.sequence;
  const auto num_kept = static_cast<std::size_t>(num_equal(drafted, query.output, query.followers));
  sequence.tokens.resize(static_cast<std::size_t>(sequence.num_prompt) + num_kept);
  std::size_t index = 0;  // position of a token of the draft model after the prompt
  for (const std::span<const std::int32_t> tokens : {query.output, query.followers}) {
    for (const std::int32_t token : tokens) {
      const std::span<const std::int32_t> ids = vocabulary.to_other(token);
      if (ids.empty()) return false;
      for (const std::int32_t id : ids) {
        if (index++ >= num_kept) sequence.tokens.push_back(id);
      }
    }
  }
  const std::int64_t size = std::ssize(sequence.tokens);
  drafted.num_computed = std::min(
      {drafted.num_computed, sequence.num_prompt + static_cast<std::int64_t>(num_kept), size - 1});
  drafted.pages.truncate(drafted.num_computed);
  return std::max<std::int64_t>(size, sequence.position(0, size - 1) + 1) <=
         runner.spec().max_positions;
}

bool DraftDecoder::State::free_oldest() {
  Drafted* oldest = nullptr;
  for (const auto& [id, drafted] : sequences) {
    if (drafted->last_asked == num_passes || drafted->pages.num_tokens() == 0) continue;
    if (oldest == nullptr || drafted->last_asked < oldest->last_asked) oldest = drafted.get();
  }
  if (oldest == nullptr) return false;
  oldest->pages.clear();
  oldest->num_computed = 0;
  return true;
}

bool DraftDecoder::State::take_slots(Drafted& drafted) {
  const std::int64_t num_tokens = std::ssize(drafted.sequence.tokens) - drafted.num_computed;
  while (drafted.pages.append(num_tokens, copies) == kv::Fit::kNoRoom) {
    if (!free_oldest()) return false;
  }
  CAPTION_CHECK(copies.empty(), "draft decoder: a page of two sequences");
  return true;
}

Guess DraftDecoder::State::guess_of(const Drafted& drafted, std::int64_t row) {
  const RequestRows rows = runner.rows(drafted.sequence, row, 1);
  Guess guess{.token = drafts::kNoGuess};
  if (!rows.tokens.empty()) {
    guess = guess_of_device(rows.tokens.front());
  } else if (const std::optional<SoftmaxPeak> peak = find_peak(rows.logits)) {
    guess = guess_at(*peak);
  }
  guess.token = vocabulary.from_other(guess.token);
  return guess;
}

// Computes tokens of `asked`, as many as a pass may have.
void DraftDecoder::State::compute_chunk() {
  std::int64_t left = options.max_num_batched_tokens;
  std::int64_t max_pages = 0;
  for (const Asked& one : asked) {
    max_pages = std::max(max_pages, std::ssize(one.drafted->pages.pages()));
  }
  BatchBuilder& builder = runner.builder();
  builder.begin(max_pages);
  ending.clear();
  for (const Asked& one : asked) {
    Drafted& drafted = *one.drafted;
    const std::int64_t missing = std::ssize(drafted.sequence.tokens) - drafted.num_computed;
    const std::int64_t count = std::min(left, missing);
    if (count == 0) break;
    builder.add({.first_token = drafted.num_computed,
                 .num_tokens = count,
                 .is_last_known = count == missing},
                drafted.sequence, drafted.pages);
    drafted.num_computed += count;
    left -= count;
    if (count == missing) ending.push_back(one);
  }
  runner.run([] {});
  for (std::size_t row = 0; row < ending.size(); ++row) {
    *ending[row].guess = guess_of(*ending[row].drafted, static_cast<std::int64_t>(row));
  }
  asked.erase(asked.begin(), asked.begin() + std::ssize(ending));
}

void DraftDecoder::State::compute() {
  try {
    while (!asked.empty()) compute_chunk();
  } catch (...) {
    for (const Asked& one : asked) {  // their pages may not have been written
      one.drafted->pages.clear();
      one.drafted->num_computed = 0;
    }
    asked.clear();
    throw;
  }
}

DraftDecoder::DraftDecoder(model::Decoder& decoder, Stream& stream,
                           const DraftDecoderOptions& options, text::VocabularyMatch vocabulary)
    : state_(std::make_unique<State>(decoder, stream, options, std::move(vocabulary))) {}

DraftDecoder::~DraftDecoder() = default;

void DraftDecoder::begin(std::int64_t sequence, Request prompt) {
  State& state = *state_;
  prompt.sampling = {.max_new_tokens = 1};
  try {
    validate(prompt, state.runner.spec(), state.runner.stream().device());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kTooLong) return;
    throw;
  }
  auto drafted = std::make_unique<Drafted>(state.pool);
  Sequence& s = drafted->sequence;
  s.num_prompt = std::ssize(prompt.prompt_ids);
  s.tokens = std::move(prompt.prompt_ids);
  s.set_positions(std::move(prompt.positions));
  s.vision_positions = std::move(prompt.vision_positions);
  for (SharedVision& shared : prompt.leading_vision) s.vision.push_back(std::move(shared.tokens));
  if (prompt.vision != nullptr) s.vision.push_back(std::move(prompt.vision));
  s.sampling = prompt.sampling;
  state.runner.reserve(s);
  state.sequences.insert_or_assign(sequence, std::move(drafted));
}

double DraftDecoder::relative_cost() const { return state_->options.relative_cost; }

std::int64_t DraftDecoder::num_missing(std::int64_t sequence,
                                       std::span<const std::int32_t> output) const {
  const auto found = state_->sequences.find(sequence);
  if (found == state_->sequences.end()) return 0;
  const Drafted& drafted = *found->second;
  const std::int64_t num_prompt = drafted.sequence.num_prompt;
  std::int64_t size = num_prompt;
  for (const std::int32_t token : output) {
    const auto num_ids = std::ssize(state_->vocabulary.to_other(token));
    if (num_ids == 0) return 0;
    size += num_ids;
  }
  const std::int64_t num_held =
      std::min(drafted.num_computed, num_prompt + state_->num_equal(drafted, output, {}));
  return size - std::min(num_held, size - 1);
}

drafts::StepLoad DraftDecoder::guess(std::span<const ModelQuery> queries,
                                     std::span<Guess> guesses) {
  CAPTION_CHECK(
      std::ssize(queries) <= state_->options.max_num_seqs && queries.size() == guesses.size(),
      "draft decoder: more sequences than were planned for");
  State& state = *state_;
  const Stopwatch stopwatch;
  ++state.num_passes;
  state.asked.clear();
  for (const ModelQuery& query : queries) {
    const auto found = state.sequences.find(query.sequence);
    if (found != state.sequences.end()) found->second->last_asked = state.num_passes;
  }
  drafts::StepLoad load;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    guesses[i].token = drafts::kNoGuess;
    const auto found = state.sequences.find(queries[i].sequence);
    if (found == state.sequences.end()) continue;
    Drafted& drafted = *found->second;
    if (!state.set_tokens(queries[i], drafted)) {
      state.sequences.erase(found);
      continue;
    }
    if (!state.take_slots(drafted)) continue;
    state.asked.push_back({.drafted = &drafted, .guess = &guesses[i]});
    load.num_tokens += std::ssize(drafted.sequence.tokens) - drafted.num_computed;
  }
  state.compute();
  load.us = stopwatch.elapsed_us();
  return load;
}

void DraftDecoder::end(std::int64_t sequence) { state_->sequences.erase(sequence); }

std::int64_t DraftDecoder::num_used_pages() const { return state_->pool.num_used(); }

std::int64_t DraftDecoder::num_pages() const { return state_->pool.num_pages(); }

}  // namespace caption::engine
