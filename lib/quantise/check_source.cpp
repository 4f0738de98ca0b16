#include "quantise/check_source.h"

#include <cstdint>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/open_file.h"
#include "model/caption_model.h"
#include "model/generation_config.h"
#include "model/model_files.h"
#include "model/read_blueprint.h"
#include "weights/format.h"
#include "weights/open_source.h"

namespace caption::quantise {

namespace fs = std::filesystem;

namespace {

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

bool holds_gguf(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_gguf(entry->path())) return true;
  }
  return false;
}

}  // namespace

void require_plain_folder(const fs::path& model) {
  std::error_code error;
  const fs::file_status status = fs::status(model, error);
  if (status.type() == fs::file_type::none) {
    throw Error(ErrorCode::kBadModel, model.string() + ": " + describe_errno(error.value()));
  }
  if (!fs::is_directory(status)) {
    throw Error(ErrorCode::kUsage,
                model.string() +
                    (is_gguf(model) ? ": is a GGUF file; quantize takes the model that it was made "
                                      "of, a folder as transformers saves it"
                                    : ": is no folder; quantize takes a model's folder with "
                                      "safetensors, as transformers saves it"));
  }
  if (!is_present(model / "config.json")) {
    throw Error(ErrorCode::kBadModel,
                model.string() + (holds_gguf(model)
                                      ? ": holds GGUF files; quantize takes the model that they "
                                        "were made of, a folder as transformers saves it"
                                      : ": holds no config.json, so it is no model's folder; "
                                        "quantize takes one as transformers saves it (of a "
                                        "composed model that of its language model)"));
  }
  if (!weights::is_quantised_folder(model)) return;
  throw Error(ErrorCode::kBadModel,
              model.string() + ": is quantised already (" +
                  model::read_model_files(model).quantisation +
                  "); codes are not rounded a second time, so give the model that it was made of");
}

void require_other_folder(const fs::path& model, const fs::path& output) {
  if (!is_same_file(model, output)) return;
  throw Error(ErrorCode::kUsage, output.string() +
                                     ": is the model's own folder, whose files stay as they are; "
                                     "give another folder with -o");
}

namespace {

// The tokenizer of a language model, which a composed model opens with it.
void require_tokenizer(const fs::path& folder, std::int64_t vocab) {
  const std::int64_t size = model::open_tokenizer(folder)->vocab_size();
  if (size <= vocab) return;
  throw Error(ErrorCode::kBadModel, folder.string() +
                                        ": the tokenizer is another model's: it has " +
                                        std::to_string(size) + " ids, the embedding " +
                                        std::to_string(vocab) + " rows; download the folder again");
}

}  // namespace

void check_source(const Context& context, const fs::path& folder) {
  require_plain_folder(folder);
  const model::Blueprint blueprint = model::read_blueprint(folder);
  if (blueprint.text.has_value() && blueprint.vision.has_value()) {
    // As f32, weights are neither converted nor packed: they stay mapped and are not read.
    model::open_model(context, folder, weights::WeightFormat::kF32,
                      {.opening = model::Opening::kToCheck});
  } else {
    model::read_generation_config(folder);
    if (blueprint.text.has_value()) require_tokenizer(folder, blueprint.text->vocab);
  }
}

}  // namespace caption::quantise
