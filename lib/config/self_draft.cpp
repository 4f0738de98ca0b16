#include "config/self_draft.h"

#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "base/counted.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "config/resources.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLayout = 1;  // version of the file: the value of "self_draft"
constexpr std::int64_t kMostLayers = 4096;
constexpr std::size_t kMaxFileBytes = 1u << 16;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kBadPreset, where + ": " + what);
}

KeptLayers parse(const std::string& text, const std::string& name) {
  const JsonObject root = JsonObject::parse(text, name, ErrorCode::kBadPreset);
  const std::int64_t layout =
      root.require_int("self_draft", 0, std::numeric_limits<std::int64_t>::max());
  if (layout != kLayout) {
    fail(name, "self_draft is " + std::to_string(layout) + ", but this version reads " +
                   std::to_string(kLayout));
  }
  const std::optional<Sha256> hash = parse_sha256(root.require_string("model_hash"));
  if (!hash.has_value()) fail(name, "model_hash is not the 64 hexadecimal digits of a SHA-256");
  KeptLayers kept{.model_hash = *hash,
                  .num_layers = root.require_int("layers", 1, kMostLayers),
                  .left_out = {}};
  std::int64_t last = -1;
  for (const std::int64_t layer : root.get_ints("left_out")) {
    if (layer <= last || layer >= kept.num_layers) {
      fail(name, "left_out has the layer " + std::to_string(layer) + " after " +
                     std::to_string(last) + "; expected ascending ones from 0 to " +
                     std::to_string(kept.num_layers - 1));
    }
    last = layer;
    kept.left_out.layers.push_back(static_cast<std::int32_t>(layer));
  }
  if (std::ssize(kept.left_out.layers) == kept.num_layers) fail(name, "left_out has all layers");
  if (!root.has("left_out")) fail(name, "the key left_out is missing");
  kept.left_out.acceptance = root.require_double("acceptance", 0, 1);
  kept.left_out.cost = root.require_double("cost", 0, 1);
  if (kept.left_out.cost == 0 && !kept.left_out.layers.empty()) {
    fail(name, "cost is 0, but a pass over the layers that are left costs something");
  }
  kept.left_out.gain = root.require_double("gain", 1, 100);
  return kept;
}

std::string to_json(const KeptLayers& kept) {
  JsonWriter json;
  json.begin_object()
      .add("self_draft", kLayout)
      .add("model_hash", kept.model_hash.hex())
      .add("layers", kept.num_layers)
      .begin_list("left_out");
  for (const std::int32_t layer : kept.left_out.layers) json.add_item(std::int64_t{layer});
  return json.end_list()
             .add("acceptance", kept.left_out.acceptance)
             .add("cost", kept.left_out.cost)
             .add("gain", kept.left_out.gain)
             .end_object()
             .text() +
         "\n";
}

std::string describe_layers(const drafts::LeftOutLayers& left_out, std::int64_t num_layers) {
  if (!left_out.pays()) {
    return "no self-drafts: a pass without some of the " + counted(num_layers, "layer") +
           " would guess too seldom right for what it costs";
  }
  return "self-drafts leave out " + std::to_string(left_out.layers.size()) + " of " +
         counted(num_layers, "layer") + ": a pass costs " + format_number(left_out.cost) +
         " of a step, and " + format_percent(left_out.acceptance) +
         " of its guesses were right; up to " + format_number(left_out.gain) + "x expected";
}

// The layers that the file has of this model. If there is such a file and it has none, nullopt,
// and `why` receives the reason.
std::optional<KeptLayers> find_in(const fs::path& path, const Sha256& model_hash,
                                  std::int64_t num_layers, std::vector<std::string>& why) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    KeptLayers kept = read_layers(path);
    if (kept.model_hash == model_hash && kept.num_layers == num_layers) return kept;
    why.push_back(path.string() + " has the layers of another model");
  } catch (const Error& error_of_file) {
    why.emplace_back(error_of_file.what());
  }
  return std::nullopt;
}

void keep(const KeptLayers& kept, const std::vector<fs::path>& files) {
  std::string obstacle = "there is no folder for them";
  for (const fs::path& path : files) {
    try {
      write_layers(kept, path);
      return log_info(
          "run", describe_layers(kept.left_out, kept.num_layers) + "; kept in " + path.string());
    } catch (const Error& error) {
      obstacle = error.what();
    }
  }
  log_info("run", describe_layers(kept.left_out, kept.num_layers));
  log_warning("run", "the layers of self-drafts are not kept for later runs: " + obstacle);
}

}  // namespace

KeptLayers read_layers(const fs::path& path) {
  return parse(read_text_file(path, kMaxFileBytes), path.string());
}

void write_layers(const KeptLayers& layers, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    throw Error(output_error_code(error.value()),
                path.parent_path().string() +
                    ": cannot make this folder: " + describe_errno(error.value()));
  }
  write_file_atomically(path, to_json(layers));
}

std::vector<fs::path> layer_files(const Preset& preset, const Locations& locations,
                                  const Sha256& model_hash, bool is_demonstration) {
  const std::string& name = preset.model.is_composed ? preset.model.llm : preset.model.path;
  const fs::path model = find_model(name, locations);
  std::vector<fs::path> files;
  std::error_code error;
  const std::string file_name(drafts::kLayerFileName);
  if (!is_demonstration) {
    files.push_back(fs::is_directory(model, error) ? model / file_name
                                                   : fs::path(model.string() + "." + file_name));
  }
  if (!locations.self_drafts.empty()) {
    files.push_back(locations.self_drafts / (model_hash.hex() + ".json"));
  }
  return files;
}

std::shared_ptr<drafts::LayerChoice> open_layer_choice(const LoadedPreset& loaded,
                                                       model::CaptionModel& model,
                                                       const Sha256& model_hash) {
  const Preset& preset = loaded.preset;
  if (preset.speculative.method != DraftMethod::kSelf) return nullptr;
  const std::vector<fs::path> files =
      layer_files(preset, loaded.locations, model_hash, model.is_demonstration());
  const std::int64_t num_layers = model.decoder().spec().num_layers;
  std::vector<std::string> unused;
  const auto warn = [&](const std::string& instead) {
    for (const std::string& why : unused) log_warning("run", why + "; it is not used, " + instead);
  };
  for (const fs::path& path : files) {
    const std::optional<KeptLayers> kept = find_in(path, model_hash, num_layers, unused);
    if (!kept.has_value()) continue;
    warn("but another file is");
    log_info("run", describe_layers(kept->left_out, num_layers) + "; from " + path.string());
    return std::make_shared<drafts::LayerChoice>(kept->left_out);
  }
  warn("and layers are searched for again");
  return std::make_shared<drafts::LayerChoice>(
      std::nullopt, [=](const drafts::LeftOutLayers& left_out) {
        keep({.model_hash = model_hash, .num_layers = num_layers, .left_out = left_out}, files);
      });
}

}  // namespace caption::config
