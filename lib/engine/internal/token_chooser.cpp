#include "engine/internal/token_chooser.h"

#include <algorithm>

#include "backend/profile_scope.h"
#include "base/clock.h"
#include "kernels/sample_rows.h"
#include "sampling/logprobs.h"

namespace caption::engine {

TokenChooser::TokenChooser(Stream& stream, std::int64_t vocab)
    : stream_(stream), sampler_(vocab), raw_logits_(static_cast<std::size_t>(vocab)) {}

std::int32_t TokenChooser::choose(Sequence& sequence, const RequestRows& rows, std::int64_t row) {
  const std::size_t vocab = raw_logits_.size();
  const auto index = static_cast<std::size_t>(row);
  if (rows.tokens.empty()) {
    choose_on_host(sequence, rows.logits.subspan(index * vocab, vocab));
  } else {
    kernels::check_token(rows.tokens[index], static_cast<std::int64_t>(vocab));
    sequence.tokens.push_back(rows.tokens[index]);
  }
  if (sequence.output().size() == 1) {
    sequence.first_token_us = now_us() - sequence.submitted_at_us;
  }
  return sequence.tokens.back();
}

void TokenChooser::choose_on_host(Sequence& sequence, std::span<float> logits) {
  const bool wants_logprobs = sequence.sampling.num_logprobs >= 0;
  if (wants_logprobs) std::copy(logits.begin(), logits.end(), raw_logits_.begin());
  if (sequence.process_logits) sequence.process_logits(logits);
  const std::int32_t token = [&] {
    const ProfileScope scope(stream_, "sampling");
    return sampler_.sample(sequence.sampling, {sequence.tokens, sequence.num_prompt}, logits);
  }();
  sequence.tokens.push_back(token);
  if (wants_logprobs) {
    sequence.logprobs.push_back(
        sampling::find_logprobs(raw_logits_, token, sequence.sampling.num_logprobs));
  }
}

}  // namespace caption::engine
