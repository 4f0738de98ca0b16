// model/internal/rope_axis.h: which position each frequency of an M-RoPE follows.
#pragma once

#include "model/decoder.h"
#include "tensor/tensor.h"

namespace caption::model {

// The axis of positions (0 time, 1 height, 2 width) that each frequency follows, [head_dim / 2] i32
// on the host; empty without M-RoPE. Source: transformers 4.57.6 modeling_qwen3_vl.py
// (apply_interleaved_mrope), modeling_qwen2_5_vl.py (apply_multimodal_rotary_pos_emb).
Tensor make_rope_axis(const DecoderSpec& spec);

}  // namespace caption::model
