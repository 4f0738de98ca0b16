// Calibrated checkpoints: what they keep, and that they lose less than rounding to nearest. Beside
// the tools' own: scripts/compare_calibration.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "quantise/internal/awq_parts.h"
#include "quantise/internal/gptq_parts.h"
#include "quantise/quantise_checkpoint.h"
#include "quantise/rounding.h"
#include "tests/model/support.h"
#include "tests/quantise/calibration_support.h"
#include "tests/quantise/folders.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Returns the logits of all tokens of the prompts, computed from a folder's weights in f32.
std::vector<Tensor> logits_of(const fs::path& folder, const model::Blueprint& blueprint,
                              const Calibration& calibration) {
  ThreadPool pool(2);
  Stream stream(pool);
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(weights::open_source(folder));
  const model::PlacedWeights placed(stream, blueprint, std::move(sources),
                                    weights::WeightFormat::kF32);
  model::TransformerDecoder decoder(stream, placed, blueprint);
  std::vector<Tensor> logits;
  for (const CalibrationPrompt& prompt : calibration.prompts) {
    Sequence sequence(decoder, DType::kF32, prompt.num_tokens());
    model::PromptIds ids;
    ids.ids = prompt.ids;
    logits.push_back(sequence.prefill(stream, ids, ConstView{}, prompt.num_tokens()));
  }
  return logits;
}

double squared_error(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::int64_t k = 0; k < a[i].num_elements(); ++k) {
      const double difference = static_cast<double>(a[i].as<float>()[k]) - b[i].as<float>()[k];
      sum += difference * difference;
    }
  }
  return sum;
}

// Error of the logits of a golden's decoder in a format, over the error of rounding to nearest.
double error_ratio(const std::string& name, const char* format, bool act_order) {
  const DrawnCheckpoint model(golden("families/" + name));
  const model::Blueprint blueprint = decoder_of(model.path());
  const Calibration prompts = draw_prompts(blueprint.text->vocab, 8, 64, 1);
  const Calibration others = draw_prompts(blueprint.text->vocab, 4, 64, 2);
  const std::vector<Tensor> exact = logits_of(model.path(), blueprint, others);
  const auto error = [&](const Calibration* calibration) {
    QuantiseOptions options = calibrated_options(
        model.path(), new_folder("quantise_calibrated/family"), format, calibration, 8);
    options.format_options.act_order = act_order && calibration != nullptr;
    REQUIRE(quantise_checkpoint(options).is_complete);
    return squared_error(logits_of(options.output, blueprint, others), exact);
  };
  return error(&prompts) / error(nullptr);
}

TEST_SUITE_BEGIN("quantise/calibrated");

TEST_CASE("on prompts that it did not see, a calibrated decoder loses less than a rounded one") {
  // Biases of every kind, tied embeddings, norms of heads, heads of another width than the hidden
  // state, windows; in yarn_mscale v and o have one shape.
  for (const char* const name :
       {"llama/linear_long", "llama/yarn_mscale", "llama/biased_wide_heads_f16",
        "mistral/window_linear", "qwen2/untied_f16", "qwen2/tied_bf16", "qwen3/biased_f16",
        "qwen3/dynamic"}) {
    const std::string where = name;
    CAPTURE(where);
    CHECK(error_ratio(where, "awq", false) < 1);
    if (where == "mistral/window_linear") continue;  // 12 rows, which gptq's layout cannot hold
    CHECK(error_ratio(where, "gptq", false) < 1);
    CHECK(error_ratio(where, "gptq", true) < 1);
  }
}

TEST_CASE("the bits depend on the prompts, not on the number of threads") {
  const Calibration prompts = draw_prompts(1280, 3, 40, 6);
  for (const char* const format : {"gptq", "awq"}) {
    CAPTURE(format);
    QuantiseOptions options =
        calibrated_options(demo_model(), new_folder("quantise_calibrated/two"), format, &prompts);
    REQUIRE(quantise_checkpoint(options).is_complete);
    const Files two = files_of(options.output);
    options.output = new_folder("quantise_calibrated/three");
    options.num_threads = 3;
    REQUIRE(quantise_checkpoint(options).is_complete);
    CHECK(files_of(options.output) == two);
    const Calibration others = draw_prompts(1280, 3, 40, 7);
    options.output = new_folder("quantise_calibrated/others");
    options.calibration = &others;
    REQUIRE(quantise_checkpoint(options).is_complete);
    CHECK(files_of(options.output)["model.safetensors"] != two.at("model.safetensors"));
  }
}

TEST_CASE("gptq changes matrices only, awq the norms before them as well") {
  const Calibration prompts = draw_prompts(1280, 2, 40, 8);
  const weights::Checkpoint plain = weights::Checkpoint::open(demo_model());
  for (const std::string format : {"gptq", "awq"}) {
    CAPTURE(format);
    const fs::path output = new_folder("quantise_calibrated/kept");
    REQUIRE(quantise_checkpoint(calibrated_options(demo_model(), output, format.c_str(), &prompts))
                .is_complete);
    const weights::Checkpoint made = weights::Checkpoint::open(output);
    int num_changed = 0;
    for (const std::string& name : plain.names()) {
      CAPTURE(name);
      if (!made.has(name)) {
        CHECK(name.ends_with("_proj.weight"));
        continue;
      }
      const bool is_norm =
          name.ends_with("layernorm.weight") && name.find("language_model") != std::string::npos;
      const bool is_equal = count_unequal_bits(*plain.find(name), *made.find(name)) == 0;
      CHECK((is_equal || (format == "awq" && is_norm)));
      if (!is_equal) ++num_changed;
    }
    CHECK(num_changed == (format == "awq" ? 8 : 0));
  }
}

TEST_CASE("the numbers that calibration goes on with are those that the reader finds") {
  const Calibration prompts = draw_prompts(1280, 2, 40, 9);
  const auto check = [&](const char* format, bool act_order, auto decode,
                         const std::vector<std::string>& suffixes) {
    QuantiseOptions options = calibrated_options(
        demo_model(), new_folder("quantise_calibrated/decoded"), format, &prompts, 64);
    options.format_options.act_order = act_order;
    REQUIRE(quantise_checkpoint(options).is_complete);
    const weights::Checkpoint file = weights::Checkpoint::open(options.output);
    const auto source = weights::open_source(options.output);
    for (const std::string name : {"self_attn.q_proj", "mlp.down_proj"}) {
      CAPTURE(name);
      const std::string module = "language_model.model.layers.1." + name;
      std::vector<Bytes> parts;
      for (const std::string& suffix : suffixes) {
        const auto& bytes = file.stored(module + suffix)->bytes;
        parts.emplace_back(bytes.begin(), bytes.end());
      }
      const Shape shape = source->shape(module + ".weight").value();
      const Tensor decoded = decode(parts, shape);
      CHECK(count_unequal_bits(decoded.view(), source->read(module + ".weight", shape)) == 0);
    }
  };
  for (const bool act_order : {false, true}) {
    check("gptq", act_order, decode_gptq, {".qweight", ".qzeros", ".scales", ".g_idx"});
  }
  check("awq", false, decode_awq, {".qweight", ".qzeros", ".scales"});
}

TEST_CASE("options that contradict each other are refused in a sentence") {
  const Calibration prompts = draw_prompts(1280, 1, 10, 10);
  const fs::path output = new_folder("quantise_calibrated/refused");
  const auto refusal = [&](const QuantiseOptions& options) {
    return calibration_error(options, ErrorCode::kUsage);
  };
  CHECK(refusal(calibrated_options(demo_model(), output, "nf4", &prompts)) ==
        "quantize: --calibrate is for awq and gptq; nf4 has no such option");
  CHECK(refusal(calibrated_options(demo_model(), output, "nf4", nullptr, 64)) ==
        "quantize: --group-size is for w4a16, awq and gptq; nf4 has no such option");
  QuantiseOptions options = calibrated_options(demo_model(), output, "gptq", nullptr);
  options.format_options.act_order = true;
  CHECK(contains_text(refusal(options), "--act-order is for gptq with --calibrate"));
  options = calibrated_options(demo_model(), output, "awq", &prompts);
  options.damping = 0.1;
  CHECK(contains_text(refusal(options), "--damping is for gptq with --calibrate"));
  CHECK_FALSE(fs::exists(output));
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::quantise
