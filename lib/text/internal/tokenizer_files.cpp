#include "text/internal/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/mend_advice.h"
#include "base/open_file.h"

namespace caption::text {
namespace {

std::optional<std::string> read_if_present(const std::filesystem::path& path) {
  if (!is_present(path)) return std::nullopt;
  return read_model_file(path);
}

JsonObject parse_json(const std::optional<std::string>& text, const TokenizerFiles& files,
                      const char* file_name) {
  return JsonObject::parse(text.value_or("{}"), files.folder + "/" + file_name,
                           ErrorCode::kBadModel);
}

// "bos_token": "<s>" or "bos_token": {"content": "<s>", ...}
std::string token_content(const JsonObject& object, const std::string& key,
                          std::string_view fallback) {
  const auto content = object.find_string_at(key + ".content");
  return content ? *content : object.get_string(key, fallback);
}

std::vector<std::string> token_contents(const JsonObject& object, const std::string& key) {
  std::vector<std::string> contents;
  for (std::size_t i = 0;; ++i) {
    const std::string element = key + "." + std::to_string(i);
    auto content = object.find_string_at(element + ".content");
    if (!content) content = object.find_string_at(element);
    if (!content) return contents;
    contents.push_back(*content);
  }
}

// {"32000": {"content": "<video>", ...}, ...}
std::vector<AddedToken> read_added_tokens_decoder(const JsonObject& decoder) {
  std::vector<AddedToken> tokens;
  for (const std::string& key : decoder.keys()) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
      fail_bad_file(decoder.name() + ": " + json_quote(key) + " is not a token id; expected 0 to " +
                    std::to_string(kMaxTokenId));
    }
    const auto object = decoder.get_object(key);
    if (!object) {
      fail_bad_file(decoder.name() + "." + key + ": expected an object");
    }
    tokens.push_back(read_added_token(*object, static_cast<TokenId>(id)));
  }
  return tokens;
}

// Reads added_tokens.json, {"<video>": 32000, ...}: the older form, which has no flags.
std::vector<AddedToken> read_added_tokens_json(const JsonObject& ids,
                                               const std::vector<std::string>& special_tokens) {
  const std::unordered_set<std::string_view> special(special_tokens.begin(), special_tokens.end());
  std::vector<AddedToken> tokens;
  for (const std::string& content : ids.keys()) {
    AddedToken token;
    token.content = content;
    token.id = static_cast<TokenId>(ids.require_int(content, 0, kMaxTokenId));
    token.is_special = special.contains(content);
    token.is_normalized = !token.is_special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Sorts by ascending id; the last of several entries for one id counts.
std::vector<AddedToken> sort_by_id(std::vector<AddedToken> tokens) {
  std::map<TokenId, AddedToken> by_id;
  for (AddedToken& token : tokens) by_id.insert_or_assign(token.id, std::move(token));
  tokens.clear();
  for (auto& [id, token] : by_id) tokens.push_back(std::move(token));
  return tokens;
}

// The prefix rule of tokenizer.json's pipeline; std::nullopt when the pipeline is not that of a
// LLaMA tokenizer.
std::optional<PrefixRule> prefix_rule_of(const JsonObject& tokenizer_json) {
  if (const auto normalizer = tokenizer_json.get_object("normalizer")) {
    std::vector<JsonObject> steps{*normalizer};
    if (normalizer->get_string("type", "") == "Sequence") {
      steps = normalizer->get_objects("normalizers");
    }
    for (const JsonObject& step : steps) {
      if (step.get_string("type", "") == "Prepend") return PrefixRule::kEverySegmentAlways;
    }
  }
  if (const auto pre_tokenizer = tokenizer_json.get_object("pre_tokenizer")) {
    if (pre_tokenizer->get_string("type", "") == "Metaspace") {
      const std::string scheme = pre_tokenizer->get_string("prepend_scheme", "always");
      if (scheme == "first") return PrefixRule::kFirstSegment;
      if (scheme == "never") return PrefixRule::kNone;
      return PrefixRule::kEverySegment;
    }
  }
  return std::nullopt;
}

PrefixRule choose_prefix_rule(const JsonObject& config, const JsonObject& tokenizer_json) {
  if (!config.get_bool("add_prefix_space", true)) return PrefixRule::kNone;
  // The reference uses the pipeline of tokenizer.json, unless add_prefix_space makes it convert
  // tokenizer.model.
  if (!config.has("add_prefix_space")) {
    if (const auto rule = prefix_rule_of(tokenizer_json)) return *rule;
  }
  return config.get_bool("legacy", true) ? PrefixRule::kEverySegmentAlways
                                         : PrefixRule::kFirstSegment;
}

void append_special_tokens(const JsonObject& object, std::vector<std::string>* contents) {
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    if (object.has(key)) contents->push_back(token_content(object, key, ""));
  }
  const auto append_list = [&](const char* key) {
    const std::vector<std::string> listed = token_contents(object, key);
    contents->insert(contents->end(), listed.begin(), listed.end());
  };
  append_list("additional_special_tokens");
  // The special tokens of one model, such as {"video_token": "<video>"}; transformers 5 lists them.
  constexpr const char* kExtra = "extra_special_tokens";
  if (object.type_of(kExtra) == JsonType::kList) {
    append_list(kExtra);
  } else if (const auto extra = object.get_object(kExtra)) {
    for (const std::string& name : extra->keys()) {
      contents->push_back(token_content(*extra, name, ""));
    }
  }
}

}  // namespace

AddedToken read_added_token(const JsonObject& object, TokenId id) {
  AddedToken token;
  token.content = object.require_string("content");
  token.id = id;
  token.is_special = object.get_bool("special", false);
  token.is_normalized = object.get_bool("normalized", !token.is_special);
  token.strips_left = object.get_bool("lstrip", false);
  token.strips_right = object.get_bool("rstrip", false);
  token.is_single_word = object.get_bool("single_word", false);
  return token;
}

TokenizerFiles read_tokenizer_files(const std::filesystem::path& model_folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(model_folder, ignored)) {
    throw Error(ErrorCode::kBadModel, model_folder.string() + ": there is no such model folder");
  }
  TokenizerFiles files;
  files.folder = model_folder.string();
  const std::pair<const char*, std::optional<std::string>*> kFiles[] = {
      {"tokenizer.model", &files.tokenizer_model},
      {"tokenizer_config.json", &files.tokenizer_config_json},
      {"added_tokens.json", &files.added_tokens_json},
      {"special_tokens_map.json", &files.special_tokens_map_json},
      {"tokenizer.json", &files.tokenizer_json},
      {"vocab.json", &files.vocab_json},
      {"merges.txt", &files.merges_txt},
  };
  for (const auto& [name, content] : kFiles) *content = read_if_present(model_folder / name);
  if (!files.tokenizer_model && !files.tokenizer_json && !(files.vocab_json && files.merges_txt)) {
    throw Error(ErrorCode::kBadModel,
                files.folder +
                    ": has no tokenizer: one of tokenizer.model, tokenizer.json, or "
                    "vocab.json with merges.txt must be there; copy or download it");
  }
  return files;
}

TokenizerConfig parse_tokenizer_config(const TokenizerFiles& files) {
  const JsonObject json = parse_json(files.tokenizer_config_json, files, "tokenizer_config.json");
  const JsonObject fast = parse_json(files.tokenizer_json, files, "tokenizer.json");
  TokenizerConfig config;
  config.prefix_rule = choose_prefix_rule(json, fast);
  config.adds_bos = json.get_bool("add_bos_token", true);
  config.adds_eos = json.get_bool("add_eos_token", false);
  const auto read_ends = [&](const JsonObject& object) {
    if (object.has("bos_token")) config.bos_token = token_content(object, "bos_token", "");
    if (object.has("eos_token")) config.eos_token = token_content(object, "eos_token", "");
  };
  read_ends(json);
  append_special_tokens(json, &config.special_tokens);

  // The older files are read only when the configuration does not list the added tokens.
  if (const auto decoder = json.get_object("added_tokens_decoder")) {
    config.added_tokens = read_added_tokens_decoder(*decoder);
    config.lists_added_tokens = true;
  } else {
    const JsonObject map =
        parse_json(files.special_tokens_map_json, files, "special_tokens_map.json");
    append_special_tokens(map, &config.special_tokens);
    read_ends(map);
    config.added_tokens = read_added_tokens_json(
        parse_json(files.added_tokens_json, files, "added_tokens.json"), config.special_tokens);
    for (const JsonObject& object : fast.get_objects("added_tokens")) {
      const std::int64_t id = object.require_int("id", 0, kMaxTokenId);
      config.added_tokens.push_back(read_added_token(object, static_cast<TokenId>(id)));
    }
  }
  config.added_tokens = sort_by_id(std::move(config.added_tokens));
  return config;
}

}  // namespace caption::text
