// model/internal/model_folder.h: the files of a model, or of a part of a composed one: a folder as
// transformers saves it, or GGUF files, whose metadata stands in the place of the folder's JSON
// files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/read_blueprint.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"
#include "weights/source.h"

namespace caption::model {

// Immutable, thread-safe.
class ModelFolder {
 public:
  // `path` is a folder, or a .gguf file. A folder with .gguf files and without .safetensors ones
  // holds one language model and one vision tower with its projector, or one of them; a tower's
  // file has "mmproj" in its name, as llama.cpp expects it. The tower of a language model that is
  // named by its file is the one beside it; among several, the largest of those that have the
  // model's name but for the types. Throws Error(kBadModel) for a folder with several
  // language models or towers of several models none of which has the name, and as
  // GgufFile::open().
  explicit ModelFolder(std::filesystem::path path, ModelPart part = ModelPart::kWhole);

  const std::filesystem::path& path() const { return path_; }
  bool is_gguf() const { return text_ != nullptr || tower_ != nullptr; }
  // The GGUF files; nullptr where there is none.
  const weights::GgufFile* gguf_text() const { return text_.get(); }
  const weights::GgufFile* gguf_tower() const { return tower_.get(); }

  // Returns the root of a JSON file; nullopt when there is none. GGUF files have a config.json made
  // of the metadata. Any other file is that of the folder, where the user named the folder, else
  // the text that the metadata holds (find_stored()); preprocessor_config.json is made of the
  // tower's sizes where they hold nothing of the processor. Throws Error(kBadModel | kUnavailable)
  // as gguf_captioner_config().
  std::optional<JsonObject> find_json(std::string_view name) const;
  // Returns config.json. Throws Error(kBadModel), naming what to do, when it is missing.
  JsonObject require_config() const;
  // The GGUF file that holds the text of a file of the model's folder; both empty when none does.
  struct Stored {
    const weights::GgufFile* owner = nullptr;
    std::string text;
  };
  Stored find_stored(std::string_view name) const;
  // Whether the user named the folder, whose files count then, and not a file.
  bool reads_files() const { return reads_files_; }
  // The chat template in the metadata of the language model's file; empty when there is none.
  std::string gguf_template() const;

  // Opens tensors and tokenizer. Throw as weights::open_source() and text::open_tokenizer();
  // Error(kBadModel) for the tokenizer of a tower's file.
  std::unique_ptr<weights::Source> open_weights() const;
  std::unique_ptr<const text::Tokenizer> open_tokenizer() const;

 private:
  std::string make_config() const;
  std::optional<JsonObject> find_gguf_json(std::string_view name) const;
  bool is_replaced(std::string_view stored_name) const;

  std::filesystem::path path_;
  ModelPart part_;
  bool reads_files_ = true;  // the user named the folder, not a file
  std::shared_ptr<const weights::GgufFile> text_;
  std::shared_ptr<const weights::GgufFile> tower_;
};

}  // namespace caption::model
