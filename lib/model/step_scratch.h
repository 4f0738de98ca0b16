// model/step_scratch.h: the scratch memory of a GPU's stream that the steps of a decoder take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/step_scratch.h"
#include "model/decoder.h"

namespace caption::model {

// The most bytes of Stream::scratch() that steps take, with weights in any form: those of a
// decoder's kernels, and of the choice of tokens (kernels/step_scratch.h).
inline std::int64_t step_scratch_bytes(const DecoderSpec& spec, std::int64_t max_tokens,
                                       std::int64_t max_logit_rows) {
  using kernels::product_scratch_bytes;
  const std::int64_t piece = std::min(max_tokens, decoder_piece_rows(Device::kCuda));
  const std::int64_t q_dim = spec.q_dim();
  const std::int64_t kv_dim = spec.kv_dim();
  return std::max(
      {kernels::step_scratch_bytes(max_tokens, max_logit_rows, spec.vocab,
                                   {.num_heads = spec.num_heads,
                                    .head_dim = spec.head_dim,
                                    .max_positions = spec.max_positions}),
       // q, k and v, which have launches of their own where their forms differ.
       product_scratch_bytes({.columns = spec.hidden, .features = {q_dim, kv_dim, kv_dim}}, piece),
       product_scratch_bytes({.columns = spec.hidden, .features = {q_dim}}, piece),
       product_scratch_bytes({.columns = spec.hidden, .features = {kv_dim}}, piece),
       product_scratch_bytes({.columns = q_dim, .features = {spec.hidden}}, max_tokens),
       // Gate and up: as SwiGLU, together, or one by one.
       product_scratch_bytes(
           {.columns = spec.hidden, .features = {spec.intermediate}, .is_swiglu = true}, piece),
       product_scratch_bytes(
           {.columns = spec.hidden, .features = {spec.intermediate, spec.intermediate}}, piece),
       product_scratch_bytes({.columns = spec.hidden, .features = {spec.intermediate}}, piece),
       product_scratch_bytes({.columns = spec.intermediate, .features = {spec.hidden}}, piece),
       product_scratch_bytes({.columns = spec.hidden, .features = {spec.vocab}}, max_logit_rows)});
}

}  // namespace caption::model
