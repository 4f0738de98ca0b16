#include "model/random_model.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/blueprint.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/internal/vision_encoder.h"
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
  std::int64_t step_weight_bytes(std::span<const std::int32_t> layers) const override {
    return decoder_.step_weight_bytes(layers);
  }
  bool can_be_recorded() const override { return decoder_.can_be_recorded(); }

 private:
  PlacedWeights weights_;
  TransformerDecoder decoder_;
};

Blueprint tower_blueprint(const VisionSpec& spec, std::int64_t out) {
  VisionSpec tower = spec;
  tower.projector.clear();
  tower.perceiver.reset();
  tower.c_abstractor.reset();
  Blueprint blueprint;
  if (tower.image_px == 0) {
    blueprint.text = DecoderSpec{.hidden = out};
    if (tower.qwen.gated_mlp) {
      add_qwen2_5_vl_tower(blueprint, tower, out, {""});
    } else {
      add_qwen3_vl_tower(blueprint, tower, out, {""});
    }
    return blueprint;
  }
  if (tower.frames_per_image != 1) {
    throw Error(ErrorCode::kUnavailable,
                "random tower: towers of several frames of a fixed size are not known");
  }
  if (tower.vit.layer_scale) {
    add_intern_vit(blueprint, tower, {""});
    return blueprint;
  }
  return clip_tower_blueprint(tower);
}

}  // namespace

std::unique_ptr<Decoder> make_random_decoder(Stream& stream, const DecoderSpec& spec,
                                             weights::WeightFormat format, std::uint64_t seed,
                                             std::span<const std::int32_t> faint) {
  Blueprint blueprint = decoder_blueprint(spec);
  for (const std::int32_t layer : faint) {
    const DecoderLayerIds& ids = blueprint.decoder.layers.at(static_cast<std::size_t>(layer));
    for (const ParameterId id : {ids.o.weight, ids.down.weight}) {
      blueprint.parameters[static_cast<std::size_t>(id)].fill = Fill::kFaint;
    }
  }
  return std::make_unique<RandomDecoder>(stream, blueprint, format, seed);
}

struct RandomTower::State {
  State(Stream& stream, const Blueprint& blueprint, weights::WeightFormat format,
        std::uint64_t seed)
      : spec(blueprint.vision.value()), weights(make_weights(stream, blueprint, format, seed)) {
    if (spec.image_px > 0) {
      tower.emplace(weights, blueprint);
    } else {
      encoder = make_vision_encoder(weights, blueprint);
    }
  }

  VisionSpec spec;
  PlacedWeights weights;
  std::optional<VitTower> tower;           // either this
  std::unique_ptr<VisionEncoder> encoder;  // or this
  std::vector<Tensor> tokens;              // result of the last call of `encoder`
};

RandomTower::RandomTower(Stream& stream, const VisionSpec& spec, weights::WeightFormat format,
                         std::uint64_t seed, std::int64_t out)
    : state_(std::make_unique<State>(stream, tower_blueprint(spec, out), format, seed)) {}

RandomTower::~RandomTower() = default;

const VisionSpec& RandomTower::spec() const { return state_->spec; }

std::int64_t RandomTower::weight_bytes() const { return state_->weights.size_bytes(); }

ConstView RandomTower::encode(Stream& stream, ConstView pixels) {
  const std::span<const ConstView> one(&pixels, 1);
  if (state_->tower) return state_->tower->forward(stream, one);
  state_->tokens = state_->encoder->encode_clips(stream, one);
  return std::as_const(state_->tokens).front().view();
}

}  // namespace caption::model
