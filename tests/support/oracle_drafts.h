// tests/support/oracle_drafts.h: drafts taken from outputs that are known, some of them wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "drafts/draft_source.h"

namespace caption::testing {

class OracleDrafts final : public drafts::DraftSource {
 public:
  using Ids = std::vector<std::int32_t>;

  // Wrong ids are in [0, vocab).
  explicit OracleDrafts(std::int32_t vocab) : vocab_(vocab) {}

  void add(Ids prompt, Ids output) { known_.emplace_back(std::move(prompt), std::move(output)); }

  // Proposes up to `longest` tokens for each sequence, 3 of 4 right.
  void propose(std::span<const drafts::DraftQuery> queries,
               std::int64_t /*num_prompt_tokens*/) override {
    for (const drafts::DraftQuery& query : queries) propose(query, longest);
  }

  // As propose(), up to `longest_copy` tokens.
  void propose_after_prompts(std::span<const drafts::DraftQuery> queries,
                             std::int64_t /*num_decoding*/,
                             std::int64_t /*num_prompt_tokens*/) override {
    for (const drafts::DraftQuery& query : queries) propose(query, longest_copy);
  }

  std::uint64_t longest = 7;
  std::uint64_t longest_copy = 7;

 private:
  void propose(const drafts::DraftQuery& query, std::uint64_t most) {
    const auto prompt = query.tokens.first(static_cast<std::size_t>(query.num_prompt));
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
      return std::equal(prompt.begin(), prompt.end(), known.first.begin(), known.first.end());
    });
    CAPTION_CHECK(found != known_.end(), "drafts for a prompt that is not known");
    const Ids& output = found->second;
    std::size_t next = query.tokens.size() - prompt.size();
    const auto count = std::min(query.most, static_cast<std::int64_t>(rng_() % (most + 1)));
    for (std::int64_t i = 0; i < count; ++i, ++next) {
      const bool is_right = next < output.size() && rng_() % 4 != 0;
      query.drafts->push_back(
          is_right ? output[next]
                   : static_cast<std::int32_t>(rng_() % static_cast<std::uint64_t>(vocab_)));
    }
  }

  std::int32_t vocab_;
  std::vector<std::pair<Ids, Ids>> known_;
  std::mt19937_64 rng_{7};
};

}  // namespace caption::testing
