// Chooses the family that runs a folder by its config.json, and describes models without opening
// their weights.
#include <algorithm>
#include <array>
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/mend_advice.h"
#include "base/open_file.h"
#include "base/units.h"
#include "model/internal/config.h"
#include "model/internal/families.h"
#include "model/internal/gguf_errors.h"
#include "model/internal/hub_model.h"
#include "model/internal/model_files.h"
#include "model/internal/model_folder.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/text_model.h"
#include "model/internal/vision_config.h"
#include "model/model_files.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"
#include "weights/open_source.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFamilies = {&kInternVl,       &kInternVlChat, &kLlavaNextVideo,
                                  &kLlavaOnevision, &kQwen25Vl,     &kQwen3Vl};

std::string family_names() {
  std::vector<std::string_view> names;
  for (const Family* const family : kFamilies) names.push_back(family->model_type);
  return join(names);
}

// Returns the dtype that a configuration names for its tensors; the class default is f32.
DType read_stored_dtype(const JsonObject& config) {
  const std::string name = config.get_string("dtype", config.get_string("torch_dtype", "float32"));
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return DType::kF32;
}

Blueprint describe(const JsonObject& config) {
  const std::string model_type = config.require_string("model_type");
  if (const Family* const family = find_family(model_type)) return family->describe(config);
  if (const TextFamily* const text = find_text_family(model_type)) {
    return text_model_blueprint(text->parse(config).spec);
  }
  if (is_tower_type(model_type)) return clip_tower_blueprint(parse_tower_config(config));
  throw Error(ErrorCode::kUnavailable, config.name() + ": model_type \"" + model_type +
                                           "\" cannot be sized by this build; " + family_names() +
                                           ", " + tower_type_names() + ", " + text_family_names() +
                                           " can");
}

// The matrices of a GGUF model that stay as the codes of its files.
struct KeptCodes {
  std::int64_t count = 0;
  std::set<std::string_view> types;
};

KeptCodes find_kept_codes(const ModelFolder& files, const JsonObject& config,
                          weights::WeightFormat format) {
  Blueprint blueprint = describe(config);
  find_stored_codes(blueprint, *files.open_weights(), 0);
  KeptCodes kept;
  for (const Parameter& parameter : blueprint.parameters) {
    if (!parameter.codes || !weights::keeps_codes(format, *parameter.codes)) continue;
    kept.types.insert(parameter.codes->method);
    ++kept.count;
  }
  return kept;
}

void report_codes(const CaptionModel& model, const ModelFolder& files, const KeptCodes& codes,
                  weights::WeightFormat format) {
  if (codes.count == 0) return;
  const std::string kept = counted(codes.count, "matrix is", "matrices are") +
                           " multiplied as the codes of the file (" + join(codes.types) +
                           "); the other";
  log_info("model", files.path().string() + ": " + kept + " weights are held in " +
                        std::string(weights::describe(format)) + "; " +
                        format_bytes(model.weight_bytes()) + " in all");
}

// A captioner's GGUF files are two, neither of which says where the other is.
void require_both_files(const ModelFolder& files) {
  if (files.gguf_text() == nullptr && files.gguf_tower() != nullptr) {
    throw Error(ErrorCode::kBadModel,
                files.gguf_tower()->path().string() +
                    ": is a vision tower without its language model; put the GGUF file of the "
                    "language model beside it and name the folder or that file, or name this one "
                    "as model.vision and model.projector of a preset");
  }
  if (files.gguf_text() == nullptr || files.gguf_tower() != nullptr) return;
  const fs::path folder = files.gguf_text()->path().parent_path();
  throw Error(ErrorCode::kBadModel,
              files.gguf_text()->path().string() +
                  ": is a language model without its vision tower; " +
                  (is_present(folder / kQuantizeManifest)
                       ? "if quantize was interrupted, give its command again; else "
                       : "") +
                  "put the tower's file, whose name "
                  "contains mmproj, beside it, or name this file as model.llm of a preset");
}

// Whether a file beside GGUF files says what they hold.
bool is_stored_equal(const ModelFolder& files, const std::string& name, const fs::path& beside) {
  const bool is_template = name == "chat_template.jinja";
  const std::string stored = is_template ? files.gguf_template() : files.find_stored(name).text;
  try {
    return !stored.empty() && stored == read_model_file(beside);
  } catch (const Error&) {
    return false;
  }
}

// Says which counts where files beside GGUF files say other than these: those of a folder that the
// user named, of which a folder of several models has at most one's.
void report_files_beside(const ModelFolder& files) {
  if (!files.is_gguf()) return;
  const fs::path folder = files.reads_files() ? files.path() : files.path().parent_path();
  std::vector<std::string> others;
  bool is_one_stored = false;
  for (const char* const name : {"preprocessor_config.json", "video_preprocessor_config.json",
                                 "chat_template.jinja", "generation_config.json"}) {
    if (!is_present(folder / name) || is_stored_equal(files, name, folder / name)) continue;
    others.emplace_back(name);
    if (files.find_stored(name).owner != nullptr) is_one_stored = true;
  }
  if (others.empty()) return;
  const std::string names = files.path().string() + ": " + join(others);
  const bool is_one = others.size() == 1;
  if (!files.reads_files()) {
    log_warning("model", names + " beside it " + (is_one ? "is" : "are") +
                             " not read, and captions may differ: name the folder in place of the "
                             "file, with no other language model in it");
  } else if (is_one_stored) {
    log_info("model",
             names + (is_one ? " counts" : " count") + " in place of what the GGUF files hold");
  }
}

// Whether the message names the folder, a GGUF file, or the folder of an adapter.
bool names_files(const std::string& message, const ModelFolder& files,
                 const std::vector<AdapterSource>& adapters) {
  const auto is_named = [&](const fs::path& path) {
    return message.find(path.string()) != std::string::npos;
  };
  return is_named(files.path()) ||
         (files.gguf_tower() != nullptr && is_named(files.gguf_tower()->path())) ||
         std::any_of(adapters.begin(), adapters.end(),
                     [&](const AdapterSource& adapter) { return is_named(adapter.folder); });
}

// Errors about parts that do not fit each other name no file: the parts are the folder's.
std::unique_ptr<CaptionModel> open_family(const Family& family, const ModelFolder& files,
                                          const JsonObject& config, weights::WeightFormat format,
                                          Parts parts, const std::vector<AdapterSource>& adapters) {
  try {
    return with_gguf_words(files,
                           [&] { return family.open(files, config, format, std::move(parts)); });
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool is_of_files =
        error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable;
    if (!is_of_files || names_files(message, files, adapters)) throw;
    throw Error(error.code(), files.path().string() + ": " + message);
  }
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family* family) { return family->model_type == model_type; });
  return found == kFamilies.end() ? nullptr : *found;
}

std::unique_ptr<CaptionModel> open_model(const Context& context,
                                         const std::filesystem::path& folder,
                                         weights::WeightFormat format, const OpenOptions& options) {
  // Before anything is read of the folder: check_unchanged() finds what is written from here on.
  ConfigFolder configs = read_config_folder(folder);
  const ModelFolder files(folder);
  require_both_files(files);
  if (options.opening == Opening::kToRun) report_files_beside(files);
  const JsonObject config = files.require_config();
  Parts parts = begin_parts(context, {std::move(configs)}, options);
  start_tokenizer(files, parts);
  add_inner_adapter(parts, folder);
  add_adapters(parts, options.adapters);
  const std::string model_type = config.require_string("model_type");
  if (const Family* const family = find_family(model_type)) {
    std::future<KeptCodes> kept;
    if (files.is_gguf() && options.opening == Opening::kToRun) {
      kept = std::async(std::launch::async | std::launch::deferred,
                        [&] { return find_kept_codes(files, config, format); });
    }
    auto model = open_family(*family, files, config, format, std::move(parts), options.adapters);
    if (kept.valid()) report_codes(*model, files, kept.get(), format);
    return model;
  }
  throw Error(ErrorCode::kUnavailable,
              config.name() + ": model_type \"" + model_type +
                  "\" is not supported by this build; " + family_names() +
                  " are, and composed models of a CLIP or SigLIP tower, a projector and one of the "
                  "decoders " +
                  text_family_names());
}

Blueprint read_blueprint(const std::filesystem::path& folder, ModelPart part) {
  const ModelFolder files(folder, part);
  const JsonObject config = files.require_config();
  Blueprint blueprint = with_gguf_words(files, [&] { return describe(config); });
  if (blueprint.vision && blueprint.vision->resize) {
    const PreprocessDefaults defaults = qwen_vl_preprocessing(*blueprint.vision);
    blueprint.vision->resize =
        with_gguf_words(files, [&] { return read_preprocess_spec(files, defaults).smart; });
  }
  blueprint.name = folder.string();
  blueprint.set_stored(read_stored_dtype(config));
  // A part's codes are found where the parts are composed.
  const std::string model_type = config.require_string("model_type");
  const bool is_whole = find_family(model_type) != nullptr ||
                        (part == ModelPart::kWhole && find_text_family(model_type) != nullptr);
  if (is_whole && (files.is_gguf() || weights::is_quantised_folder(folder))) {
    find_stored_codes(blueprint, *files.open_weights(), 0);
  }
  return blueprint;
}

}  // namespace caption::model
