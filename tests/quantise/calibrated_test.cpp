// Calibrated checkpoints: what they keep, that they lose less than rounding to nearest, and what
// continues an interrupted call. Beside the tools' own: scripts/compare_calibration.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/text_family.h"
#include "quantise/internal/gptq_parts.h"
#include "quantise/quantise_checkpoint.h"
#include "quantise/rounding.h"
#include "tests/model/support.h"
#include "tests/quantise/folders.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Prompts of drawn tokens: each is followed by one of a few, so that the inputs are correlated.
Calibration draw_prompts(std::int64_t vocab, int num_prompts, int num_tokens, unsigned seed) {
  std::mt19937 random(seed);
  Calibration calibration;
  for (int p = 0; p < num_prompts; ++p) {
    CalibrationPrompt& prompt = calibration.prompts.emplace_back();
    auto token = static_cast<std::int64_t>(random() % static_cast<unsigned>(vocab));
    for (int t = 0; t < num_tokens; ++t) {
      prompt.ids.push_back(static_cast<std::int32_t>(token));
      token = (token * 7 + static_cast<std::int64_t>(random() % 5)) % vocab;
    }
    prompt.positions.resize(prompt.ids.size());
    std::iota(prompt.positions.begin(), prompt.positions.end(), 0);
  }
  calibration.identity = {{"calibration clips", std::to_string(seed)}};
  return calibration;
}

QuantiseOptions options_of(const fs::path& model, const fs::path& output, const char* format,
                           const Calibration* calibration, std::int64_t group = 128) {
  QuantiseOptions options{.model = model, .output = output, .format = format, .num_threads = 2};
  options.format_options.group_columns = group;
  options.calibration = calibration;
  return options;
}

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

model::Blueprint decoder_of(const fs::path& folder) {
  const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
  model::Blueprint blueprint;
  model::add_decoder(blueprint, model::parse_text_config(config).spec, {"model."}, {""});
  return blueprint;
}

std::string error_of(const QuantiseOptions& options, ErrorCode code) {
  try {
    quantise_checkpoint(options);
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(code));
    return error.what();
  }
  return "no error";
}

// Error of the logits of a golden's decoder in a format, over the error of rounding to nearest.
double error_ratio(const std::string& name, const char* format, bool act_order) {
  const DrawnCheckpoint model(golden("families/" + name));
  const model::Blueprint blueprint = decoder_of(model.path());
  const Calibration prompts = draw_prompts(blueprint.text->vocab, 8, 64, 1);
  const Calibration others = draw_prompts(blueprint.text->vocab, 4, 64, 2);
  const std::vector<Tensor> exact = logits_of(model.path(), blueprint, others);
  const auto error = [&](const Calibration* calibration) {
    QuantiseOptions options =
        options_of(model.path(), new_folder("quantise_calibrated/family"), format, calibration, 8);
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

TEST_CASE("a call that was stopped after any layer is continued to the same bytes") {
  const Calibration prompts = draw_prompts(1280, 3, 40, 3);
  for (const char* const format : {"gptq", "awq"}) {
    QuantiseOptions options =
        options_of(demo_model(), new_folder("quantise_calibrated/uninterrupted"), format, &prompts);
    options.max_shard_bytes = 3'000'000;
    REQUIRE(quantise_checkpoint(options).is_complete);
    const Files expected = files_of(options.output);
    for (const auto& [name, content] : expected) CHECK(name.find("layer") == std::string::npos);
    for (const int last : {1, 3, 4, 60}) {
      CAPTURE(format);
      CAPTURE(last);
      options.output = new_folder("quantise_calibrated/interrupted");
      std::atomic<bool> stop{false};
      int reports = 0;
      options.stop = &stop;
      options.on_progress = [&](const QuantiseProgress& progress) {
        CHECK(progress.bytes_done <= progress.bytes_total);
        if (++reports >= last) stop = true;
      };
      CHECK_FALSE(quantise_checkpoint(options).is_complete);
      CHECK_FALSE(fs::exists(options.output / "config.json"));
      CHECK(fs::exists(options.output / "caption-cli.layer-00000.safetensors"));
      options.stop = nullptr;
      options.on_progress = {};
      // Other prompts are refused by name, and so is none.
      const Calibration others = draw_prompts(1280, 3, 40, 4);
      QuantiseOptions other = options;
      other.calibration = &others;
      CHECK(contains_text(error_of(other, ErrorCode::kOutputConflict),
                          "are made with other videos (--calibrate,"));
      other.calibration = nullptr;
      CHECK(
          contains_text(error_of(other, ErrorCode::kOutputConflict), "are made with --calibrate;"));
      CHECK(quantise_checkpoint(options).is_complete);
      CHECK(files_of(options.output) == expected);
      CHECK(quantise_checkpoint(options).is_complete);
      CHECK(files_of(options.output) == expected);
    }
  }
}

TEST_CASE("the layers' files count for the room that a call needs, and for its progress") {
  const Calibration prompts = draw_prompts(1280, 2, 30, 11);
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_calibrated/measured"), "awq", &prompts);
  std::int64_t layers_bytes = 0;   // of the layers' files
  std::int64_t headers_bytes = 0;  // of their headers, which are not counted
  options.on_progress = [&](const QuantiseProgress& progress) {
    CHECK(progress.layers_total == 4);
    CHECK(progress.passed_us == 0);
    if (progress.layers_done < 4) CHECK(progress.tensors_done == 0);
    std::int64_t sum = 0;
    std::int64_t headers = 0;
    for (const auto& [name, content] : files_of(options.output)) {
      if (!name.starts_with("caption-cli.layer-")) continue;
      sum += std::ssize(content);
      headers += header_bytes(content);
    }
    layers_bytes = std::max(layers_bytes, sum);
    headers_bytes = std::max(headers_bytes, headers);
  };
  REQUIRE(quantise_checkpoint(options).is_complete);
  std::int64_t whole_bytes = 0;
  for (const auto& [name, content] : files_of(options.output)) {
    if (name != kManifestName) whole_bytes += std::ssize(content);
    if (name.ends_with(".safetensors")) headers_bytes += header_bytes(content);
  }
  options.output = new_folder("quantise_calibrated/room");
  std::int64_t free_bytes = whole_bytes + layers_bytes - headers_bytes - 1;
  options.free_bytes = [&](const fs::path&) { return free_bytes; };
  CHECK(contains_text(error_of(options, ErrorCode::kIo), "those of single layers included"));
  free_bytes = whole_bytes + layers_bytes;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_progress = [&](const QuantiseProgress& progress) {
    if (progress.layers_done == 2) stop = true;
  };
  REQUIRE_FALSE(quantise_checkpoint(options).is_complete);
  // Two of four layers are there.
  std::int64_t passed_us = 0;
  free_bytes -= layers_bytes / 2;
  stop = false;
  options.on_progress = [&](const QuantiseProgress& progress) {
    CHECK((progress.bytes_done > 0) == (progress.layers_done > 2));
    CHECK(progress.passed_us <= progress.elapsed_us);
    if (progress.layers_done <= 2) {
      CHECK(progress.passed_us > passed_us);
      passed_us = progress.passed_us;
    }
    CHECK(progress.passed_us == passed_us);
  };
  CHECK(quantise_checkpoint(options).is_complete);
}

TEST_CASE("a layer's file that is not what the manifest says is made again") {
  const Calibration prompts = draw_prompts(1280, 2, 30, 5);
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_calibrated/whole"), "gptq", &prompts);
  REQUIRE(quantise_checkpoint(options).is_complete);
  const Files expected = files_of(options.output);
  options.output = new_folder("quantise_calibrated/damaged");
  std::atomic<bool> stop{false};
  int reports = 0;
  options.stop = &stop;
  options.on_progress = [&](const QuantiseProgress&) { stop = ++reports >= 2; };
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  std::fstream file(options.output / "caption-cli.layer-00001.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(50'000);
  file.put('\x55').put('\xAA');
  file.close();
  options.stop = nullptr;
  CHECK(quantise_checkpoint(options).is_complete);
  CHECK(files_of(options.output) == expected);
}

TEST_CASE("the bits depend on the prompts, not on the number of threads") {
  const Calibration prompts = draw_prompts(1280, 3, 40, 6);
  for (const char* const format : {"gptq", "awq"}) {
    CAPTURE(format);
    QuantiseOptions options =
        options_of(demo_model(), new_folder("quantise_calibrated/two"), format, &prompts);
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
    REQUIRE(quantise_checkpoint(options_of(demo_model(), output, format.c_str(), &prompts))
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

TEST_CASE("gptq's numbers are those that the reader finds in the tensors") {
  const Calibration prompts = draw_prompts(1280, 2, 40, 9);
  for (const bool act_order : {false, true}) {
    QuantiseOptions options =
        options_of(demo_model(), new_folder("quantise_calibrated/decoded"), "gptq", &prompts, 64);
    options.format_options.act_order = act_order;
    REQUIRE(quantise_checkpoint(options).is_complete);
    const weights::Checkpoint file = weights::Checkpoint::open(options.output);
    const auto source = weights::open_source(options.output);
    const std::string module = "language_model.model.layers.1.mlp.down_proj";
    std::vector<Bytes> parts;
    for (const char* const suffix : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
      const auto& bytes = file.stored(module + suffix)->bytes;
      parts.emplace_back(bytes.begin(), bytes.end());
    }
    const Shape shape = source->shape(module + ".weight").value();
    const Tensor decoded = decode_gptq(parts, shape);
    CHECK(count_unequal_bits(decoded.view(), source->read(module + ".weight", shape)) == 0);
  }
}

TEST_CASE("options that contradict each other are refused in a sentence") {
  const Calibration prompts = draw_prompts(1280, 1, 10, 10);
  const fs::path output = new_folder("quantise_calibrated/refused");
  const auto refusal = [&](const QuantiseOptions& options) {
    return error_of(options, ErrorCode::kUsage);
  };
  CHECK(refusal(options_of(demo_model(), output, "nf4", &prompts)) ==
        "quantize: --calibrate is for awq and gptq; nf4 has no such option");
  CHECK(refusal(options_of(demo_model(), output, "nf4", nullptr, 64)) ==
        "quantize: --group-size is for w4a16, awq and gptq; nf4 has no such option");
  QuantiseOptions options = options_of(demo_model(), output, "gptq", nullptr);
  options.format_options.act_order = true;
  CHECK(contains_text(refusal(options), "--act-order is for gptq with --calibrate"));
  options = options_of(demo_model(), output, "awq", &prompts);
  options.damping = 0.1;
  CHECK(contains_text(refusal(options), "--damping is for gptq with --calibrate"));
  CHECK_FALSE(fs::exists(output));
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::quantise
