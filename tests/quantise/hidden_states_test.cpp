// The layers of calibration, one after another, beside the decoder that runs them all: kernels and
// the order of every sum are the same, so the logits have the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/norm.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/read_blueprint.h"
#include "model/stored_names.h"
#include "model/text_family.h"
#include "quantise/calibration.h"
#include "quantise/internal/decoder_layers.h"
#include "quantise/internal/hidden_states.h"
#include "quantise/internal/layer_solver.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "weights/checkpoint.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Returns the logits of the last token of every prompt, layer by layer.
std::vector<Tensor> logits_by_layers(Stream& stream, const model::Blueprint& blueprint,
                                     const weights::Checkpoint& source,
                                     const Calibration& calibration) {
  const model::DecoderSpec& spec = *blueprint.text;
  const auto places = model::find_stored_names(blueprint, source);
  const auto read = [&](model::ParameterId id) {
    const auto at = static_cast<std::size_t>(id);
    return source.require(places[at].name, blueprint.parameters[at].shape);
  };
  const ConstView embedding = read(blueprint.decoder.embedding);
  HiddenStates hidden(stream, spec, calibration, embedding);
  std::size_t index = 0;
  for (const LayerNames& names : name_layers(blueprint, source)) {
    hidden.begin_layer(index++);
    run_layer(read_layer(source, names), hidden);
  }
  ConstView head = embedding;
  for (const std::string& name : source.names()) {
    if (!spec.tied_embeddings && name.ends_with("lm_head.weight")) head = *source.find(name);
  }
  std::vector<Tensor> logits;
  std::int64_t end = 0;
  for (const CalibrationPrompt& prompt : calibration.prompts) {
    end += prompt.num_tokens();
    Tensor last(DType::kF32, {1, spec.hidden});
    kernels::rms_norm(stream, hidden.rows().rows(end - 1, 1), read(blueprint.decoder.final_norm),
                      spec.rms_norm_eps, last.view());
    Tensor& row = logits.emplace_back(DType::kF32, Shape{1, spec.vocab});
    model::apply_dense(stream, {.weight = head, .bias = {}}, last.view(), row.view());
  }
  return logits;
}

CalibrationPrompt prompt_of(const model::PromptIds& ids, std::int64_t axes) {
  CalibrationPrompt prompt{.ids = ids.ids,
                           .positions = ids.positions,
                           .vision_rows = ids.vision_positions,
                           .vision = nullptr};
  if (!prompt.positions.empty()) return prompt;
  std::vector<std::int32_t> counting(prompt.ids.size());
  std::iota(counting.begin(), counting.end(), 0);
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    prompt.positions.insert(prompt.positions.end(), counting.begin(), counting.end());
  }
  return prompt;
}

TEST_SUITE("quantise/hidden_states") {
  TEST_CASE("language models: the logits of layers alone are the decoder's") {
    for (const char* const family : {"llama", "mistral", "qwen2", "qwen3"}) {
      const fs::path folder = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/families" / family;
      for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        CAPTURE(entry.path().string());
        const DrawnCheckpoint drawn(entry.path());
        const JsonObject config =
            JsonObject::open(drawn.path() / "config.json", ErrorCode::kBadModel);
        model::Blueprint blueprint;
        model::add_decoder(blueprint, model::parse_text_config(config).spec, {"model."}, {""});
        ThreadPool pool(2);
        Stream stream(pool);
        std::vector<std::unique_ptr<weights::Source>> sources;
        sources.push_back(
            std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(drawn.path())));
        const model::PlacedWeights placed(stream, blueprint, std::move(sources),
                                          weights::WeightFormat::kF32);
        model::TransformerDecoder decoder(stream, placed, blueprint);
        const JsonObject expected =
            JsonObject::open(entry.path() / "expected.json", ErrorCode::kBadReference);
        const std::vector<std::int64_t> wide = expected.get_ints("prompt");
        Calibration calibration;
        // Two prompts, the second without its first tokens.
        for (const std::ptrdiff_t first : {0, 3}) {
          model::PromptIds ids;
          ids.ids.assign(wide.begin() + first, wide.end());
          calibration.prompts.push_back(prompt_of(ids, 1));
        }
        const std::vector<Tensor> found = logits_by_layers(
            stream, blueprint, weights::Checkpoint::open(drawn.path()), calibration);
        for (std::size_t i = 0; i < found.size(); ++i) {
          model::PromptIds ids;
          ids.ids = calibration.prompts[i].ids;
          const auto count = std::ssize(ids.ids);
          Sequence sequence(decoder, DType::kF32, count);
          const Tensor whole = sequence.prefill(stream, ids, ConstView{}, count);
          CHECK(max_difference(row_of(found[i], 0), row_of(whole, count - 1)) == 0);
        }
      }
    }
  }

  TEST_CASE("captioners: vision tokens, M-RoPE and DeepStack") {
    const std::pair<const char*, const char*> cases[] = {
        {"qwen3_vl", "untied_f32"}, {"qwen3_vl", "tied_bf16"}, {"qwen2_5_vl", "untied_f32"}};
    for (const auto& [family, name] : cases) {
      CAPTURE(family);
      CAPTURE(name);
      const CaptionerGolden golden(family, name);
      ThreadPool pool(2);
      Stream stream(pool);
      const auto model = golden.open();
      const GoldenClip clip = std::move(golden.clips(pool, *model).front());
      const model::PromptIds ids = model->build_prompt("무엇이 보입니까?", clip.shape);
      const Tensor vision = model->encode_frames(stream, clip.pixel_values.view());
      Calibration calibration;
      calibration.prompts.push_back(prompt_of(ids, model->decoder().spec().position_axes()));
      calibration.prompts.front().vision = std::make_shared<const Tensor>(vision.clone());
      const std::vector<Tensor> found =
          logits_by_layers(stream, model::read_blueprint(golden.folder()),
                           weights::Checkpoint::open(golden.folder()), calibration);
      const auto count = std::ssize(ids.ids);
      Sequence sequence(model->decoder(), DType::kF32, count);
      const Tensor whole = sequence.prefill(stream, ids, vision.view(), count);
      CHECK(max_difference(row_of(found.front(), 0), row_of(whole, count - 1)) == 0);
    }
  }
}

}  // namespace
}  // namespace caption::quantise
