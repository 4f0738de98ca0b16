#include "text/internal/open_pipeline.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/pipeline_tokenizer.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

// What a tokenizer class of transformers sets by itself.
struct TokenizerClass {
  std::string_view name;  // without "Fast"
  // Whether it replaces the post-processor by add_bos_token and add_eos_token, and the default of
  // the former; that of the latter is false.
  bool sets_ends = false;
  bool adds_bos = false;
  std::string_view bos_token;  // defaults
  std::string_view eos_token;
  std::string_view unknown_token;
};
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::array<TokenizerClass, 7> kClasses = {{
    {"Qwen2Tokenizer", false, false, "", kEndOfText, kEndOfText},
    {"GPT2Tokenizer", false, false, kEndOfText, kEndOfText, kEndOfText},
    {"LlamaTokenizer", true, true, "<s>", "</s>", "<unk>"},
    {"CodeLlamaTokenizer", true, true, "<s>", "</s>", "<unk>"},
    {"GemmaTokenizer", true, true, "<bos>", "<eos>", "<unk>"},
    {"CohereTokenizer", true, true, "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>"},
    {"GPTNeoXTokenizer", true, false, kEndOfText, kEndOfText, kEndOfText},
}};

TokenizerClass class_of(const JsonObject& config) {
  std::string name = config.get_string("tokenizer_class", "");
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  for (const TokenizerClass& known : kClasses) {
    if (known.name == name) return known;
  }
  return {};
}

PreTokenizerStep split_step(std::string_view pattern) {
  PreTokenizerStep step;
  step.pattern = pattern;
  return step;
}

// merges.txt has a pair of tokens on each line. Qwen2Tokenizer leaves out empty lines and a first
// line "#version: ..."; GPT2Tokenizer the first line, whatever it is.
void parse_merges_txt(std::string_view text, const std::string& name, bool skips_first_line,
                      const Vocabulary& vocabulary, std::vector<BpeSpec::Merge>& merges) {
  if (!is_valid_utf8(text)) fail_bad_file(name + ": is not valid UTF-8");
  constexpr std::string_view kSpaces = " \t\r\v\f";
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (number == 1 && (skips_first_line || line.starts_with("#version:"))) continue;
    const auto take_word = [&] {
      line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
      const std::string_view word = line.substr(0, line.find_first_of(kSpaces));
      line.remove_prefix(word.size());
      return word;
    };
    const std::string_view left = take_word();
    const std::string_view right = take_word();
    if (left.empty()) continue;
    const std::string where = name + ": line " + std::to_string(number);
    if (right.empty() || !take_word().empty()) {
      fail_bad_file(where + ": expected two tokens with a space between them");
    }
    add_merge(left, right, where, vocabulary, merges);
  }
}

// The tokenizer that transformers builds from vocab.json and merges.txt.
PipelineSpec make_slow_spec(const TokenizerFiles& files, const JsonObject& config) {
  const TokenizerClass known = class_of(config);
  const bool is_qwen2 = known.name == "Qwen2Tokenizer";
  if (!is_qwen2 && known.name != "GPT2Tokenizer") {
    throw Error(ErrorCode::kUnavailable,
                files.folder + "/tokenizer_config.json: tokenizer_class " +
                    json_quote(config.get_string("tokenizer_class", "")) +
                    " with vocab.json and merges.txt is not supported by this build, which reads "
                    "Qwen2Tokenizer and GPT2Tokenizer; a tokenizer.json beside them would be read");
  }
  PipelineSpec spec;
  spec.name = files.folder + "/vocab.json";
  parse_bpe_vocabulary(*files.vocab_json, spec.name, spec.vocabulary);
  BpeSpec bpe;
  bpe.alphabet = BpeSpec::Alphabet::kBytes;
  parse_merges_txt(*files.merges_txt, files.folder + "/merges.txt", !is_qwen2, spec.vocabulary,
                   bpe.merges);
  spec.model = std::move(bpe);
  if (is_qwen2) {
    NormalizerStep nfc;
    spec.normalizer.push_back(nfc);
    spec.pre_tokenizer.push_back(split_step(qwen2_pattern()));
  } else {
    spec.pre_tokenizer.push_back(split_step(gpt2_pattern()));
    spec.is_plain_byte_level = true;
  }
  return spec;
}

void add_configured_tokens(const TokenizerConfig& config, const std::string& where,
                           PipelineSpec& spec) {
  const auto is_same = [](const AddedToken& a, const AddedToken& b) {
    return a.is_special == b.is_special && a.is_normalized == b.is_normalized &&
           a.strips_left == b.strips_left && a.strips_right == b.strips_right &&
           a.is_single_word == b.is_single_word;
  };
  const std::unordered_set<std::string_view> special(config.special_tokens.begin(),
                                                     config.special_tokens.end());
  for (AddedToken token : config.added_tokens) {
    const auto known = spec.added_index.find(token.content);
    if (known != spec.added_index.end()) {
      // tokenizer.json counts more than the older files, and less than tokenizer_config.json.
      if (!config.lists_added_tokens) continue;
      if (is_same(token, spec.added_tokens[known->second])) continue;
    }
    token.is_special = token.is_special || special.contains(token.content);
    add_token(spec, std::move(token), where);
  }
}

void add_special_tokens(const std::vector<std::string>& contents, PipelineSpec& spec) {
  for (const std::string& content : contents) {
    if (spec.added_index.contains(content)) continue;
    add_token(spec, {.content = content, .id = -1, .is_special = true}, spec.name);
  }
}

// A ByteLevel that is the whole pre-tokenizer prepends a space as add_prefix_space of the
// configuration says, whatever tokenizer.json says.
void set_prefix_space(bool adds_prefix_space, PipelineSpec& spec) {
  if (!spec.is_plain_byte_level) return;
  std::vector<PreTokenizerStep>& steps = spec.pre_tokenizer;
  std::erase_if(steps, [](const PreTokenizerStep& step) {
    return step.kind == PreTokenizerStep::Kind::kPrefixSpace;
  });
  if (!adds_prefix_space) return;
  PreTokenizerStep prefix;
  prefix.kind = PreTokenizerStep::Kind::kPrefixSpace;
  steps.insert(steps.begin(), std::move(prefix));
}

void set_ends(const JsonObject& config, bool adds_bos, const std::string& bos_token,
              const std::string& eos_token, PipelineSpec& spec) {
  spec.prefix_ids.clear();
  spec.suffix_ids.clear();
  const auto require = [&](const char* key, const std::string& content) {
    auto id = spec.vocabulary.find(content);
    const auto added = spec.added_index.find(content);
    if (added != spec.added_index.end()) id = spec.added_tokens[added->second].id;
    if (id) return *id;
    fail_bad_file(config.name() + ": " + key + " " + json_quote(content) +
                  " is to be added to every text, but has no id");
  };
  if (config.get_bool("add_bos_token", adds_bos)) {
    spec.prefix_ids.push_back(require("bos_token", bos_token));
  }
  if (config.get_bool("add_eos_token", false)) {
    spec.suffix_ids.push_back(require("eos_token", eos_token));
  }
}

}  // namespace

Pipeline read_pipeline(TokenizerFiles files) {
  const std::string config_name = files.folder + "/tokenizer_config.json";
  const JsonObject json = JsonObject::parse(files.tokenizer_config_json.value_or("{}"), config_name,
                                            ErrorCode::kBadModel);
  const TokenizerClass known = class_of(json);
  PipelineSpec spec = files.tokenizer_json ? parse_tokenizer_json(*files.tokenizer_json,
                                                                  files.folder + "/tokenizer.json")
                                           : make_slow_spec(files, json);
  files.tokenizer_json.reset();  // its added tokens are in `spec`
  TokenizerConfig config = parse_tokenizer_config(files);
  const std::string bos_token = config.bos_token.value_or(std::string(known.bos_token));
  const std::string eos_token = config.eos_token.value_or(std::string(known.eos_token));
  add_configured_tokens(config, config_name, spec);
  for (const std::string_view content :
       {std::string_view(bos_token), std::string_view(eos_token), known.unknown_token}) {
    config.special_tokens.emplace_back(content);
  }
  add_special_tokens(config.special_tokens, spec);
  set_prefix_space(json.get_bool("add_prefix_space", false), spec);
  if (known.sets_ends || (known.name == "GPT2Tokenizer" && json.get_bool("add_bos_token", false) &&
                          spec.name.ends_with("vocab.json"))) {
    set_ends(json, known.adds_bos, bos_token, eos_token, spec);
  }
  return {.spec = std::move(spec), .bos_token = bos_token, .eos_token = eos_token};
}

std::unique_ptr<const Tokenizer> open_pipeline(TokenizerFiles files) {
  Pipeline found = read_pipeline(std::move(files));
  return make_pipeline_tokenizer(std::move(found.spec), found.bos_token, found.eos_token);
}

}  // namespace caption::text
