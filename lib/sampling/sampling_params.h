// sampling/sampling_params.h: how the tokens of a request are chosen (Hugging Face definitions).
#pragma once

#include <cstdint>
#include <vector>

namespace caption::sampling {

// Condition for ending a beam search (sampling/beam_search.h).
enum class EarlyStopping {
  kNo,     // when no running beam can beat the finished ones, judged at the current length
  kYes,    // as soon as num_beams beams have finished
  kNever,  // as kNo, judged at the best length for length_penalty (max_new_tokens if it is > 0)
};

struct SamplingParams {
  double temperature = 0.0;               // 0: greedy; > 0: sampled
  std::int32_t top_k = 50;                // 0: off
  double top_p = 1.0;                     // (0, 1]; 1: off
  double repetition_penalty = 1.0;        // > 0; 1: off
  std::int32_t no_repeat_ngram_size = 0;  // 0: off
  // Whether these two count the prompt's tokens as well as the output's. generate() of transformers
  // does so when it gets input_ids; from inputs_embeds alone it does not know the prompt's ids.
  bool counts_prompt = true;
  std::int32_t min_new_tokens = 0;
  std::int32_t max_new_tokens = 128;  // >= 1; counts the stop token
  // Ids that end the output; part of the ids, not of the text.
  std::vector<std::int32_t> stop_ids = {};
  std::uint64_t seed = 0;
  std::int32_t num_beams = 1;   // > 1: beam search; temperature must be 0
  double length_penalty = 1.0;  // with beams: > 0 favours long outputs, < 0 short ones
  EarlyStopping early_stopping = EarlyStopping::kNo;  // with beams
  // -1: none; n >= 0: the log-probability of each token and of the n most likely ones
  // (sampling/logprobs.h). Not with beams.
  std::int32_t num_logprobs = -1;
};

}  // namespace caption::sampling
