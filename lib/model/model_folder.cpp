#include "model/internal/model_folder.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/mend_advice.h"
#include "base/open_file.h"
#include "base/paths.h"
#include "model/internal/adapter.h"
#include "model/internal/model_files.h"
#include "model/model_files.h"
#include "text/token_tables.h"
#include "weights/gguf_config.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"
#include "weights/joined_source.h"
#include "weights/open_source.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGgufTextPrefix = "model.language_model.";

bool is_tower_file(const fs::path& path) {
  const std::string name = to_lower_ascii(path.filename().string());
  return name.find("mmproj") != std::string::npos;
}

// Whether the name is that of a part of a split file other than the first: "-00002-of-00003.gguf".
bool is_later_part(const fs::path& path) {
  const std::string name = path.stem().string();
  const std::size_t of = name.rfind("-of-");
  constexpr std::size_t kDigits = 5;
  if (of == std::string::npos || of < kDigits + 1 || name.size() != of + 4 + kDigits) return false;
  return name[of - kDigits - 1] == '-' && name.substr(of - kDigits, kDigits) != "00001";
}

std::vector<fs::path> list_gguf_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : list_folder(folder, ignored)) {
    const fs::path& path = entry.path();
    // A FIFO or a link to nothing is refused when it is opened.
    if (path.extension() != ".gguf" || entry.is_directory(ignored)) continue;
    if (!is_later_part(path)) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

fs::path folder_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  return folder.empty() ? "." : folder;
}

bool holds_safetensors(const fs::path& folder) {
  std::error_code ignored;
  const std::vector<fs::directory_entry> entries = list_folder(folder, ignored);
  return std::any_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

std::shared_ptr<const weights::GgufFile> open_file(const fs::path& path) {
  return std::make_shared<const weights::GgufFile>(weights::GgufFile::open(path));
}

// Whether a word of a GGUF file's name tells the types of its tensors ("Q4", "K", "M"; "BF16"), or
// the number of a part ("00001", "of", "00003").
bool is_of_type(const std::string& word) {
  static const std::set<std::string> kWords = {"k",  "l",   "m",    "s",   "xl", "xs", "xxs",
                                               "nl", "f16", "bf16", "f32", "of", "ud"};
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t q = word.starts_with('i') ? 1 : 0;
  const bool is_quantised = word.size() == q + 2 && word[q] == 'q' &&
                            std::isdigit(static_cast<unsigned char>(word[q + 1])) != 0;
  return is_number || is_quantised || kWords.contains(word);
}

// The words of a file's name in lower case without "mmproj" and the last ones that tell types:
// those of the model's name.
std::vector<std::string> model_words(const fs::path& file) {
  std::vector<std::string> words(1);
  for (const char c : file.stem().string()) {
    if (std::string_view("-_. ").find(c) != std::string_view::npos) {
      words.emplace_back();
    } else {
      words.back() += to_lower_ascii(c);
    }
  }
  std::erase_if(words, [](const std::string& word) { return word.empty() || word == "mmproj"; });
  while (!words.empty() && is_of_type(words.back())) words.pop_back();
  return words;
}

// Throws where the files are towers of several models.
void require_one_model(const std::vector<fs::path>& files) {
  const std::vector<std::string> first = model_words(files.front());
  if (std::all_of(files.begin(), files.end(),
                  [&](const fs::path& file) { return model_words(file) == first; })) {
    return;
  }
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  throw Error(ErrorCode::kBadModel,
              folder_of(files.front()).string() + ": holds " + std::to_string(files.size()) +
                  " vision towers, " + join(names) +
                  ", and no name tells which is the model's; give each model a folder of its own, "
                  "or the tower its language model's name behind \"mmproj-\"");
}

// Where there are several towers, those that have the language model's name count. They differ in
// their types; the largest file is the most exact.
std::optional<fs::path> find_tower_file(std::vector<fs::path> files,
                                        const std::optional<fs::path>& text) {
  std::erase_if(files, [](const fs::path& path) { return !is_tower_file(path); });
  if (files.empty()) return std::nullopt;
  if (files.size() == 1) return files.front();
  std::vector<fs::path> named;
  if (text) {
    std::copy_if(files.begin(), files.end(), std::back_inserter(named),
                 [&](const fs::path& file) { return model_words(file) == model_words(*text); });
  }
  if (named.empty()) {
    require_one_model(files);
    named = files;
  }
  std::error_code ignored;
  const fs::path largest =
      *std::max_element(named.begin(), named.end(), [&](const auto& a, const auto& b) {
        return fs::file_size(a, ignored) < fs::file_size(b, ignored);
      });
  // The whole path, so that the file is told once however its folder is named.
  log_once(LogLevel::kInfo, "model",
           fs::absolute(largest, ignored).lexically_normal().string() + ": this of " +
               std::to_string(files.size()) + " mmproj files is used: names count, then sizes");
  return largest;
}

std::optional<fs::path> find_text_file(const fs::path& folder, std::vector<fs::path> files) {
  std::erase_if(files, is_tower_file);
  if (files.size() > 1) {
    std::vector<std::string> names;
    for (const fs::path& path : files) names.push_back(path.filename().string());
    throw Error(ErrorCode::kBadModel, folder.string() + ": holds " + std::to_string(files.size()) +
                                          " GGUF files of language models, " + join(names) +
                                          "; name one of them in the place of the folder");
  }
  if (files.empty()) return std::nullopt;
  return files.front();
}

}  // namespace

bool is_gguf_model(const fs::path& path) {
  if (is_file(path)) return path.extension() == ".gguf";
  return !holds_safetensors(path) && !list_gguf_files(path).empty();
}

ModelFolder::ModelFolder(fs::path path, ModelPart part) : path_(std::move(path)), part_(part) {
  if (!is_gguf_model(path_)) return;
  reads_files_ = !is_file(path_);
  std::vector<fs::path> files = list_gguf_files(reads_files_ ? path_ : folder_of(path_));
  const bool wants_text = part == ModelPart::kWhole || part == ModelPart::kText;
  const bool wants_tower = part != ModelPart::kText;
  const bool is_named_tower = !reads_files_ && (!wants_text || is_tower_file(path_));
  std::optional<fs::path> text;
  if (wants_text && !is_named_tower) {
    text = reads_files_ ? find_text_file(path_, files) : path_;
    if (text) text_ = open_file(*text);
  }
  if (!wants_tower) return;
  const auto tower = is_named_tower ? path_ : find_tower_file(std::move(files), text);
  if (tower) tower_ = open_file(*tower);
}

std::string ModelFolder::make_config() const {
  if (text_ == nullptr) return weights::gguf_tower_config(*tower_);
  return tower_ == nullptr ? weights::gguf_text_config(*text_)
                           : weights::gguf_captioner_config(*text_, *tower_);
}

ModelFolder::Stored ModelFolder::find_stored(std::string_view name) const {
  const weights::GgufFile* const owner =
      name == weights::kGenerationFile ? text_.get() : tower_.get();
  if (owner == nullptr) return {};
  std::optional<std::string> text = weights::gguf_stored_file(*owner, name);
  return text ? Stored{.owner = owner, .text = *std::move(text)} : Stored{};
}

// A file of the processor in the folder replaces all that are stored: they are read in turn.
bool ModelFolder::is_replaced(std::string_view stored_name) const {
  if (!reads_files_) return false;
  if (stored_name == weights::kGenerationFile) return is_present(path_ / stored_name);
  return std::any_of(weights::kProcessorFiles.begin(), weights::kProcessorFiles.end(),
                     [&](std::string_view name) { return is_present(path_ / name); });
}

std::optional<JsonObject> ModelFolder::find_gguf_json(std::string_view name) const {
  const auto parse = [&](const std::string& text, const weights::GgufFile& owner) {
    return JsonObject::parse(text, owner.path().string() + ", as " + std::string(name),
                             ErrorCode::kBadModel);
  };
  if (name == "config.json") return parse(make_config(), text_ == nullptr ? *tower_ : *text_);
  if (const Stored stored = find_stored(name); stored.owner != nullptr && !is_replaced(name)) {
    return JsonObject::parse(
        stored.text, stored.owner->path().string() + ", key " + weights::gguf_key_of_file(name),
        ErrorCode::kBadModel);
  }
  if (name != "preprocessor_config.json" || tower_ == nullptr) return std::nullopt;
  for (const std::string_view file : weights::kProcessorFiles) {
    if (find_stored(file).owner != nullptr && !is_replaced(file)) return std::nullopt;
  }
  return parse(weights::gguf_preprocessor_config(*tower_), *tower_);
}

std::optional<JsonObject> ModelFolder::find_json(std::string_view name) const {
  if (!is_gguf() || (reads_files_ && name != "config.json")) {
    const fs::path file = path_ / name;
    if (is_present(file)) return JsonObject::open(file, ErrorCode::kBadModel);
  }
  return is_gguf() ? find_gguf_json(name) : std::nullopt;
}

JsonObject ModelFolder::require_config() const {
  if (const auto config = find_json("config.json")) return *config;
  if (holds_adapter(path_)) {
    throw Error(ErrorCode::kBadModel,
                path_.string() +
                    ": is an adapter without its base model; name the base with --model and this "
                    "folder with --adapter");
  }
  if (is_present(path_ / kQuantizeManifest)) {
    throw Error(ErrorCode::kBadModel,
                path_.string() +
                    ": holds a checkpoint that quantize has not finished; give the same quantize "
                    "command again");
  }
  throw Error(ErrorCode::kBadModel, path_.string() +
                                        ": config.json is missing; a model is a folder as "
                                        "transformers saves it, or its GGUF files: copy or "
                                        "download it whole");
}

std::string ModelFolder::gguf_template() const {
  return text_ == nullptr ? "" : weights::gguf_chat_template(text_->metadata());
}

std::unique_ptr<weights::Source> ModelFolder::open_weights() const {
  if (!is_gguf()) return weights::open_source(path_);
  using weights::GgufPart;
  using weights::GgufSource;
  if (part_ == ModelPart::kProjector) {
    return std::make_unique<GgufSource>(tower_, "", GgufPart::kProjector);
  }
  if (text_ == nullptr) return std::make_unique<GgufSource>(tower_, "", GgufPart::kTower);
  if (tower_ == nullptr) return std::make_unique<GgufSource>(text_, "model.");
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(std::make_unique<GgufSource>(text_, kGgufTextPrefix));
  sources.push_back(std::make_unique<GgufSource>(tower_, ""));
  return std::make_unique<weights::JoinedSource>(std::move(sources));
}

std::unique_ptr<const text::Tokenizer> ModelFolder::open_tokenizer() const {
  if (!is_gguf()) return text::open_tokenizer(path_);
  if (text_ == nullptr) {
    throw Error(ErrorCode::kBadModel, tower_->path().string() +
                                          ": is a vision tower, which has no tokenizer; put the "
                                          "GGUF file of its language model beside it");
  }
  return text::make_tokenizer(weights::gguf_token_tables(text_->metadata()));
}

}  // namespace caption::model
