#include "bench_drafts.h"

#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/log.h"
#include "bench/model_draft_bench.h"
#include "config/resolve.h"
#include "draft_prices.h"
#include "exit_codes.h"
#include "model/blueprint.h"
#include "model/random_model.h"
#include "plan/known_models.h"
#include "write_text.h"

namespace caption::cli {
namespace {

// A decoder of another shape, with random weights of 16 bits.
struct SecondDecoder {
  std::unique_ptr<model::Decoder> decoder;
  double cost = 1;  // bytes of its weights relative to those of the first
};

// The decoder of a shape "NAME", or its first layers: "NAME:LAYERS". std::nullopt for another text.
std::optional<model::DecoderSpec> parse_draft_shape(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::optional<model::Blueprint> known = plan::find_known_model(text.substr(0, colon));
  if (!known.has_value() || !known->text.has_value()) return std::nullopt;
  model::DecoderSpec spec = *known->text;
  if (colon == std::string::npos) return spec;
  const std::string layers = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(layers.data(), layers.data() + layers.size(), spec.num_layers);
  const bool is_number = error == std::errc() && end == layers.data() + layers.size();
  if (!is_number || spec.num_layers < 1 || spec.num_layers > known->text->num_layers) {
    return std::nullopt;
  }
  return spec;
}

model::DecoderSpec find_draft_shape(const config::Preset& preset) {
  const std::string& name = preset.speculative.draft_model;
  const std::optional<model::DecoderSpec> spec = parse_draft_shape(name);
  if (spec.has_value()) return *spec;
  throw Error(ErrorCode::kUsage,
              name.empty()
                  ? "bench: --drafts model needs a shape: --draft-model NAME or NAME:LAYERS"
                  : "bench: --draft-model: \"" + name +
                        "\" is no shape with a decoder, nor one with a number of its layers, "
                        "NAME:LAYERS; bench --help lists the shapes");
}

SecondDecoder open_second(const DraftedShape& shape, Stream& stream) {
  const std::string& name = shape.preset.speculative.draft_model;
  const model::DecoderSpec spec = find_draft_shape(shape.preset);
  log_info("bench", "making random weights of " + name);
  constexpr auto kFormat = weights::WeightFormat::kBF16;
  const std::int64_t bytes =
      model::placed_bytes(shape.device.context, model::decoder_blueprint(spec), kFormat);
  return {.decoder = model::make_random_decoder(
              stream, spec, kFormat, static_cast<std::uint64_t>(shape.preset.generation.seed) + 1),
          .cost = static_cast<double>(bytes) / static_cast<double>(shape.weight_bytes)};
}

std::string describe_search(const drafts::LeftOutLayers& found, double seconds) {
  if (!found.pays()) return "self-drafts: no layers can be left out";
  std::string layers;
  for (const std::int32_t layer : found.layers) layers += " " + std::to_string(layer);
  return "self-drafts leave out" + layers + ": a pass costs " + format_number(found.cost) +
         " of a step, " + format_percent(found.acceptance) + " of the guesses were right, up to " +
         format_number(found.gain) + "x expected; found in " + format_number(seconds) + " s";
}

// Writes the rows where they are wanted, if there are none the heading alone, and returns the exit
// code.
int report_rows(const DraftedShape& shape, const std::string& heading,
                const std::vector<bench::ModelDraftRow>& rows) {
  if (shape.json != "-") {
    std::cout << (rows.empty() ? heading + "\n" : bench::to_table(heading, rows));
  }
  if (!shape.json.empty()) write_text(shape.json, bench::to_json(heading, rows));
  return kExitOk;
}

}  // namespace

void require_draft_shape(const config::Preset& preset, std::int64_t vocab) {
  const config::DraftMethod method = preset.speculative.method;
  const std::string& name = preset.speculative.draft_model;
  if (method == config::DraftMethod::kArchive || method == config::DraftMethod::kNgram) {
    throw Error(ErrorCode::kUsage,
                "bench: --price drafts of a shape plants its guesses, or takes those of --drafts "
                "self or model: archive and ngram guess for videos only");
  }
  if (method != config::DraftMethod::kModel) {
    if (name.empty()) return;
    throw Error(ErrorCode::kUsage,
                "bench: --draft-model " + name + " has no effect: --drafts model guesses with it");
  }
  const model::DecoderSpec spec = find_draft_shape(preset);
  if (spec.vocab != vocab) {
    throw Error(ErrorCode::kUsage,
                "bench: --draft-model: " + name + " has " + counted(spec.vocab, "token") +
                    " in its vocabulary, and the shape " + std::to_string(vocab));
  }
}

std::vector<std::int32_t> faint_layers(std::int64_t num_layers) {
  std::vector<std::int32_t> layers;
  for (std::int64_t layer = num_layers / 4; layer < num_layers * 3 / 4; ++layer) {
    if (layer > 0 && layer + 1 < num_layers) layers.push_back(static_cast<std::int32_t>(layer));
  }
  return layers;
}

int bench_drafts_of_model(const DraftedShape& shape, bench::DraftBenchOptions options) {
  ThreadPool pool(shape.device.context.num_threads);
  Stream stream(shape.device.context, pool);
  bench::ModelDraftOptions wanted;
  options.agreements = {0.3, 0.6, 0.9};
  bench::MakeDraft make_draft;
  SecondDecoder second;
  std::string heading = shape.description;
  if (shape.preset.speculative.method == config::DraftMethod::kSelf) {
    const bench::LayersFound found = bench::find_layers(shape.decoder, stream, options);
    heading += "\n" + describe_search(found.layers, found.seconds);
    if (!found.layers.pays()) return report_rows(shape, heading, {});
    options.agreements.insert(options.agreements.begin(), bench::kOwnGuesses);
    make_draft = bench::make_self_draft(found.layers.layers);
  } else {
    second = open_second(shape, stream);
    heading += "\ndraft model " + shape.preset.speculative.draft_model +
               " (random weights): " + format_number(second.cost) + " of the bytes of weights";
    make_draft = bench::make_second_decoder(*second.decoder, stream, second.cost);
  }
  wanted.num_rounds = kRoundsPerRepeat * options.repeat;
  wanted.common = std::move(options);
  const std::vector<bench::ModelDraftRow> rows =
      bench::bench_model_drafts(shape.decoder, stream, make_draft, wanted);
  return report_rows(shape, heading, rows);
}

}  // namespace caption::cli
