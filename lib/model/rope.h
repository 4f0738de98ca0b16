// model/rope.h: the frequencies of a rotary position embedding and the ways to scale them.
// Source: transformers 4.57 modeling_rope_utils.py (default, linear, dynamic, yarn, llama3), with
// its order of operations and its roundings to f32.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace caption::model {

enum class RopeKind {
  kDefault,  // arXiv:2104.09864
  kLinear,   // position interpolation, arXiv:2306.15595
  // NTK-aware scaling beyond the original length. Up to that length, which bounds the sequences of
  // such a model here, it is the default embedding.
  kDynamic,
  kYarn,    // arXiv:2309.00071
  kLlama3,  // scaling that depends on the wavelength, as in Llama 3.1
};
std::string_view rope_kind_name(RopeKind kind);  // as in rope_type: "default", "linear", ...

// The keys of rope_scaling (rope_parameters in transformers 5), and rope_theta. A kind reads the
// members that its comment names.
struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;  // all; > 1
  double factor = 1;     // linear, dynamic, yarn, llama3; >= 1
  // original_max_position_embeddings or, where it is absent, max_position_embeddings. dynamic,
  // yarn, llama3.
  std::int64_t original_max_position = 0;
  double low_freq_factor = 1;   // llama3
  double high_freq_factor = 4;  // llama3; > low_freq_factor
  double beta_fast = 32;        // yarn
  double beta_slow = 1;         // yarn
  bool truncate = true;         // yarn: the bounds of the ramp are rounded to whole dimensions
  // yarn: attention_factor, or if it is absent the one derived from the factor and, where both are
  // not 0, mscale and mscale_all_dim.
  std::optional<double> attention_factor = std::nullopt;
  double mscale = 0;
  double mscale_all_dim = 0;
};

// The factor of all cosines and sines with yarn.
double yarn_attention_factor(const RopeSpec& spec);

struct RotaryFrequencies {
  Tensor inv_freq;              // [head_dim / 2] f32 on the host
  float attention_scaling = 1;  // factor of all cosines and sines
};
// `head_dim` is even and at least 2.
RotaryFrequencies make_rotary_frequencies(const RopeSpec& spec, std::int64_t head_dim);

// The longest sequence that the embedding supports in a model whose max_position_embeddings is
// `max_positions`. Linear scaling and yarn extend it; dynamic ends at the original length; that of
// llama3 includes its factor.
std::int64_t rope_max_positions(const RopeSpec& spec, std::int64_t max_positions);

}  // namespace caption::model
