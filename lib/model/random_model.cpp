#include "model/random_model.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "model/blueprint.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/internal/vit_tower.h"
#include "model/vit_blueprint.h"
#include "weights/random_source.h"

namespace caption::model {
namespace {

PlacedWeights make_weights(Stream& stream, const Blueprint& blueprint, weights::WeightFormat format,
                           std::uint64_t seed) {
  const DType dtype = format == weights::WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(
      std::make_unique<weights::RandomSource>(stream.pool(), new_tensors(blueprint), dtype, seed));
  return {stream, blueprint, std::move(sources), format};
}

// Owns a decoder and the weights that it borrows.
class RandomDecoder final : public Decoder {
 public:
  RandomDecoder(Stream& stream, const Blueprint& blueprint, weights::WeightFormat format,
                std::uint64_t seed)
      : weights_(make_weights(stream, blueprint, format, seed)),
        decoder_(stream, weights_, blueprint) {}

  const DecoderSpec& spec() const override { return decoder_.spec(); }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override {
    decoder_.reserve(max_tokens, max_logit_rows);
  }
  std::int64_t scratch_bytes() const override { return decoder_.scratch_bytes(); }
  void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) override {
    decoder_.forward(stream, batch, kv, logits);
  }

 private:
  PlacedWeights weights_;
  TransformerDecoder decoder_;
};

Blueprint require_vit(const VisionSpec& spec) {
  if (spec.image_px <= 0 || spec.frames_per_image != 1) {
    throw Error(ErrorCode::kUnavailable,
                "random tower: only towers of single frames of a fixed size are known; use "
                "clip-l-336");
  }
  if (!spec.vit.layer_scale) return clip_tower_blueprint(spec);
  Blueprint intern;
  add_intern_vit(intern, spec, {""});
  return intern;
}

}  // namespace

std::unique_ptr<Decoder> make_random_decoder(Stream& stream, const DecoderSpec& spec,
                                             weights::WeightFormat format, std::uint64_t seed) {
  return std::make_unique<RandomDecoder>(stream, decoder_blueprint(spec), format, seed);
}

struct RandomTower::State {
  State(Stream& stream, const Blueprint& blueprint, weights::WeightFormat format,
        std::uint64_t seed)
      : weights(make_weights(stream, blueprint, format, seed)), tower(weights, blueprint) {}

  PlacedWeights weights;
  VitTower tower;
};

RandomTower::RandomTower(Stream& stream, const VisionSpec& spec, weights::WeightFormat format,
                         std::uint64_t seed)
    : state_(std::make_unique<State>(stream, require_vit(spec), format, seed)) {}

RandomTower::~RandomTower() = default;

std::int64_t RandomTower::weight_bytes() const { return state_->weights.size_bytes(); }

ConstView RandomTower::encode(Stream& stream, ConstView pixels) {
  return state_->tower.forward(stream, pixels);
}

}  // namespace caption::model
