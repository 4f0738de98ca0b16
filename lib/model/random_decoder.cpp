#include "model/random_decoder.h"

#include <string>
#include <vector>

#include "model/internal/random_file.h"
#include "model/internal/transformer_decoder.h"
#include "model/internal/weight_store.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

std::vector<NewTensor> list_tensors(const TextShape& shape) {
  std::vector<NewTensor> tensors;
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    tensors.push_back({name, {out, in}, Fill::kNormal});
  };
  const auto norm = [&](const std::string& name, std::int64_t dim) {
    tensors.push_back({name, {dim}, Fill::kOne});
  };
  constexpr const char* kMatrices[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                       "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                       "mlp.down_proj"};
  constexpr std::size_t kNumAttention = 4;
  const std::vector<LinearShape> extents = layer_matrices(shape);
  matrix("embed_tokens.weight", shape.vocab, shape.hidden);
  if (!shape.tied_embeddings) matrix("lm_head.weight", shape.vocab, shape.hidden);
  norm("norm.weight", shape.hidden);
  for (std::int64_t i = 0; i < shape.num_layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    for (std::size_t m = 0; m < extents.size(); ++m) {
      const std::string stem = layer + kMatrices[m];
      matrix(stem + ".weight", extents[m].out, extents[m].in);
      if (m < kNumAttention ? shape.attention_bias : shape.mlp_bias) {
        tensors.push_back({stem + ".bias", {extents[m].out}, Fill::kZero});
      }
    }
    norm(layer + "input_layernorm.weight", shape.hidden);
    norm(layer + "post_attention_layernorm.weight", shape.hidden);
    if (shape.qk_norm) {
      norm(layer + "self_attn.q_norm.weight", shape.head_dim);
      norm(layer + "self_attn.k_norm.weight", shape.head_dim);
    }
  }
  return tensors;
}

TextConfig to_config(const TextShape& shape) {
  TextConfig config;
  config.model_type = shape.qk_norm ? "qwen3" : "llama";
  config.hidden = shape.hidden;
  config.intermediate = shape.intermediate;
  config.num_layers = shape.num_layers;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.vocab = shape.vocab;
  config.max_positions = shape.max_positions;
  config.rms_norm_eps = 1e-6F;
  config.rope_theta = 1e6;
  config.qkv_bias = shape.attention_bias;
  config.mlp_bias = shape.mlp_bias;
  config.qk_norm = shape.qk_norm;
  config.tied_embeddings = shape.tied_embeddings;
  return config;
}

// Owns a decoder and the weights that it borrows.
class RandomDecoder final : public Decoder {
 public:
  RandomDecoder(const RandomFile& file, WeightType type, const TextConfig& config)
      : store_(weights::Checkpoint::open(file.path()), type),
        decoder_(store_, "", "lm_head", config) {
    file.forget_packed(store_);
  }

  const DecoderSpec& spec() const override { return decoder_.spec(); }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override {
    decoder_.reserve(max_tokens, max_logit_rows);
  }
  std::int64_t scratch_bytes() const override { return decoder_.scratch_bytes(); }
  void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) override {
    decoder_.forward(stream, batch, kv, logits);
  }

 private:
  WeightStore store_;
  TransformerDecoder decoder_;
};

}  // namespace

std::unique_ptr<Decoder> make_random_decoder(const TextShape& shape, WeightType type,
                                             std::uint64_t seed) {
  const DType dtype = type == WeightType::kF32 ? DType::kF32 : DType::kBF16;
  const RandomFile file(list_tensors(shape), dtype, seed);
  return std::make_unique<RandomDecoder>(file, type, to_config(shape));
}

}  // namespace caption::model
