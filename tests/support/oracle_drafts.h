// tests/support/oracle_drafts.h: drafts taken from outputs that are known, some of them wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/draft_source.h"

namespace caption::testing {

class OracleDrafts final : public engine::DraftSource {
 public:
  using Ids = std::vector<std::int32_t>;

  // Wrong ids are in [0, vocab).
  explicit OracleDrafts(std::int32_t vocab) : vocab_(vocab) {}

  void add(Ids prompt, Ids output) { known_.emplace_back(std::move(prompt), std::move(output)); }

  // Proposes up to `longest` tokens, 3 of 4 right.
  void propose(std::span<const std::int32_t> tokens, std::int64_t num_prompt, std::int64_t most,
               std::vector<std::int32_t>& drafts) override {
    const auto prompt = tokens.first(static_cast<std::size_t>(num_prompt));
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
      return std::equal(prompt.begin(), prompt.end(), known.first.begin(), known.first.end());
    });
    CAPTION_CHECK(found != known_.end(), "drafts for a prompt that is not known");
    const Ids& output = found->second;
    std::size_t next = tokens.size() - prompt.size();
    const auto count = std::min(most, static_cast<std::int64_t>(rng_() % (longest + 1)));
    for (std::int64_t i = 0; i < count; ++i, ++next) {
      const bool is_right = next < output.size() && rng_() % 4 != 0;
      drafts.push_back(
          is_right ? output[next]
                   : static_cast<std::int32_t>(rng_() % static_cast<std::uint64_t>(vocab_)));
    }
  }

  std::uint64_t longest = 7;

 private:
  std::int32_t vocab_;
  std::vector<std::pair<Ids, Ids>> known_;
  std::mt19937_64 rng_{7};
};

}  // namespace caption::testing
