// The normalizer, pre_tokenizer, post_processor and decoder of a tokenizer.json.
// Source: Hugging Face tokenizers 0.22, the types' Deserialize implementations.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

// Far above the one character of published tokenizers.
constexpr std::size_t kMaxPrependBytes = 64;

[[noreturn]] void refuse(const JsonObject& object, const std::string& what) {
  fail_unsupported(object.name() + ": " + what + " is not supported by this build");
}

// Far above the dozen of published tokenizers: each step is run for every token of a vocabulary, or
// for every added token.
constexpr std::size_t kMaxSteps = 256;

// A step and, of a Sequence, those in it, in order. `list` is the Sequence's key.
std::vector<JsonObject> steps_of(const std::optional<JsonObject>& step, const char* list) {
  std::vector<JsonObject> steps;
  if (!step) return steps;
  if (step->get_string("type", "") != "Sequence") return {*step};
  for (const JsonObject& inner : step->get_objects(list)) {
    const std::vector<JsonObject> more = steps_of(inner, list);  // JSON is nested 64 deep at most
    steps.insert(steps.end(), more.begin(), more.end());
    if (steps.size() > kMaxSteps) {
      refuse(*step, "a Sequence of more than " + std::to_string(kMaxSteps) + " steps");
    }
  }
  return steps;
}

// {"String": "a"} or {"Regex": "a+"}: the value, and whether it is a regular expression.
struct Pattern {
  std::string text;
  bool is_regex = false;
};

Pattern parse_pattern(const JsonObject& step) {
  const auto pattern = step.get_object("pattern");
  if (!pattern) fail_bad_file(step.name() + ".pattern: is missing");
  if (pattern->has("Regex")) return {pattern->require_string("Regex"), true};
  Pattern string{pattern->require_string("String"), false};
  if (string.text.empty()) refuse(*pattern, "the empty String");
  return string;
}

std::string parse_mark(const JsonObject& step) {
  const std::string mark = step.require_string("replacement");
  if (decode_utf8_lossy(mark).size() != 1) {
    fail_bad_file(step.name() + ".replacement: expected one character, found " + json_quote(mark));
  }
  return mark;
}

PrependScheme parse_prepend_scheme(const JsonObject& step) {
  const bool adds_space = step.get_bool("add_prefix_space", true);
  const std::string scheme = step.get_string("prepend_scheme", adds_space ? "always" : "never");
  if (scheme == "always" && adds_space) return PrependScheme::kAlways;
  if (scheme == "first" && adds_space) return PrependScheme::kFirst;
  if (scheme == "never") return PrependScheme::kNever;
  fail_bad_file(step.name() + ".prepend_scheme: " + json_quote(scheme) +
                " is not always, first or never, or contradicts "
                "add_prefix_space");
}

NormalizerStep parse_normalizer(const JsonObject& step) {
  using Kind = NormalizerStep::Kind;
  const std::string type = step.require_string("type");
  constexpr std::array<std::pair<std::string_view, UnicodeForm>, 4> kForms = {
      {{"NFC", UnicodeForm::kNfc},
       {"NFD", UnicodeForm::kNfd},
       {"NFKC", UnicodeForm::kNfkc},
       {"NFKD", UnicodeForm::kNfkd}}};
  for (const auto& [name, form] : kForms) {
    if (type == name) return {.kind = Kind::kForm, .form = form, .pattern = "", .content = ""};
  }
  NormalizerStep parsed;
  if (type == "Lowercase") {
    parsed.kind = Kind::kLowercase;
  } else if (type == "Prepend") {
    parsed.kind = Kind::kPrepend;
    parsed.content = step.require_string("prepend");
    if (parsed.content.size() > kMaxPrependBytes) {
      refuse(step, "a Prepend of more than " + std::to_string(kMaxPrependBytes) + " bytes");
    }
  } else if (type == "Replace") {
    const Pattern pattern = parse_pattern(step);
    if (pattern.is_regex) refuse(step, "a Replace with a regular expression");
    parsed.kind = Kind::kReplace;
    parsed.pattern = pattern.text;
    parsed.content = step.require_string("content");
  } else if (type == "Strip") {
    parsed.kind = Kind::kStrip;
    parsed.strips_left = step.get_bool("strip_left", true);
    parsed.strips_right = step.get_bool("strip_right", true);
  } else {
    refuse(step, "the normalizer " + json_quote(type));
  }
  return parsed;
}

SplitBehavior parse_behavior(const JsonObject& step) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {
      {{"Isolated", SplitBehavior::kIsolated},
       {"Removed", SplitBehavior::kRemoved},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  const std::string name = step.require_string("behavior");
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  fail_bad_file(step.name() + ".behavior: " + json_quote(name) +
                " is not Isolated, Removed, MergedWithPrevious, "
                "MergedWithNext or Contiguous");
}

PreTokenizerStep split_step(std::string pattern, SplitBehavior behavior, bool is_inverted) {
  PreTokenizerStep step;
  step.pattern = std::move(pattern);
  step.behavior = behavior;
  step.is_inverted = is_inverted;
  return step;
}

// Appends a step; true for a ByteLevel, after which words are bytes.
bool parse_pre_tokenizer(const JsonObject& step, std::vector<PreTokenizerStep>& steps) {
  const std::string type = step.require_string("type");
  if (type == "Split") {
    const Pattern pattern = parse_pattern(step);
    steps.push_back(split_step(pattern.is_regex ? pattern.text : escape_regex(pattern.text),
                               parse_behavior(step), step.get_bool("invert", false)));
  } else if (type == "Digits") {
    steps.push_back(split_step("\\p{N}",
                               step.get_bool("individual_digits", false)
                                   ? SplitBehavior::kIsolated
                                   : SplitBehavior::kContiguous,
                               false));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(split_step("\\s", SplitBehavior::kRemoved, false));
  } else if (type == "Metaspace") {
    PreTokenizerStep parsed;
    parsed.kind = PreTokenizerStep::Kind::kMetaspace;
    parsed.mark = parse_mark(step);
    parsed.prepend_scheme = parse_prepend_scheme(step);
    parsed.splits = step.get_bool("split", true);
    steps.push_back(std::move(parsed));
  } else if (type == "ByteLevel") {
    if (step.get_bool("add_prefix_space", true)) {
      PreTokenizerStep parsed;
      parsed.kind = PreTokenizerStep::Kind::kPrefixSpace;
      steps.push_back(std::move(parsed));
    }
    if (step.get_bool("use_regex", true)) {
      steps.push_back(split_step(std::string(gpt2_pattern()), SplitBehavior::kIsolated, false));
    }
    return true;
  } else {
    refuse(step, "the pre-tokenizer " + json_quote(type));
  }
  return false;
}

void parse_pre_tokenizers(const JsonObject& document, PipelineSpec& spec) {
  const auto top = document.get_object("pre_tokenizer");
  bool is_byte_level = false;
  for (const JsonObject& step : steps_of(top, "pretokenizers")) {
    if (is_byte_level) refuse(step, "a pre-tokenizer after ByteLevel");
    is_byte_level = parse_pre_tokenizer(step, spec.pre_tokenizer);
  }
  spec.is_plain_byte_level = is_byte_level && top->get_string("type", "") == "ByteLevel";
  if (!is_byte_level) return;
  BpeSpec* bpe = std::get_if<BpeSpec>(&spec.model);
  if (bpe == nullptr) refuse(*top, "ByteLevel with a Unigram model");
  bpe->alphabet = BpeSpec::Alphabet::kBytes;
  if (bpe->falls_back_to_bytes) refuse(*top, "ByteLevel with a model that has byte_fallback");
}

// One template: {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
// "special_tokens": {"<s>": {"ids": [1]}}}.
void parse_template(const JsonObject& step, PipelineSpec& spec) {
  const auto tokens = step.get_object("special_tokens");
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  int num_texts = 0;
  for (const JsonObject& piece : step.get_objects("single")) {
    if (piece.has("Sequence")) {
      ++num_texts;
      continue;
    }
    const auto special = piece.get_object("SpecialToken");
    if (!special) refuse(piece, "a part that is neither Sequence nor SpecialToken");
    const std::string name = special->require_string("id");
    const auto entry = tokens ? tokens->get_object(name) : std::nullopt;
    if (!entry) {
      fail_bad_file(step.name() + ".special_tokens: " + json_quote(name) +
                    " is missing, which the template names");
    }
    for (const std::int64_t id : entry->get_ints("ids")) {
      if (id < 0 || id > kMaxTokenId) {
        fail_bad_file(entry->name() + ".ids: " + std::to_string(id) + " is no token id");
      }
      (num_texts == 0 ? before : after).push_back(static_cast<TokenId>(id));
    }
  }
  if (num_texts != 1) refuse(step, "a template that does not hold the text once");
  spec.prefix_ids.insert(spec.prefix_ids.begin(), before.begin(), before.end());
  spec.suffix_ids.insert(spec.suffix_ids.end(), after.begin(), after.end());
}

void parse_post_processors(const JsonObject& document, PipelineSpec& spec) {
  for (const JsonObject& step : steps_of(document.get_object("post_processor"), "processors")) {
    const std::string type = step.require_string("type");
    if (type == "TemplateProcessing") {
      parse_template(step, spec);
    } else if (type != "ByteLevel") {  // which changes offsets only
      refuse(step, "the post-processor " + json_quote(type));
    }
  }
}

// Replace, ByteFallback, Fuse, Strip, in this order as far as they are there: any other order
// gives texts that depend on more than one token.
void parse_piece_decoders(const std::vector<JsonObject>& steps, DecoderSpec& decoder) {
  enum class Stage { kReplace, kBytes, kFuse, kStrip };
  decoder.kind = DecoderSpec::Kind::kPieces;
  Stage last = Stage::kReplace;
  for (const JsonObject& step : steps) {
    const std::string type = step.require_string("type");
    Stage stage = Stage::kReplace;
    if (type == "Replace") {
      const Pattern pattern = parse_pattern(step);
      if (pattern.is_regex) refuse(step, "a Replace with a regular expression");
      decoder.replacements.emplace_back(pattern.text, step.require_string("content"));
    } else if (type == "ByteFallback") {
      stage = Stage::kBytes;
      decoder.falls_back_to_bytes = true;
    } else if (type == "Fuse") {
      stage = Stage::kFuse;
    } else if (type == "Strip") {
      stage = Stage::kStrip;
      const std::int64_t start = step.get_int("start", 0, 0, 1);
      if (last != Stage::kFuse) refuse(step, "a Strip that does not follow Fuse");
      if (step.get_int("stop", 0, 0, 1 << 20) != 0) refuse(step, "a Strip at the end");
      if (start == 1 && step.require_string("content") != " ") refuse(step, "a Strip of no space");
      decoder.strips_leading_space = start == 1;
    } else {
      refuse(step, "the decoder " + json_quote(type));
    }
    if (stage < last) refuse(step, json_quote(type) + " at this place");
    last = stage;
  }
}

void parse_decoder(const JsonObject& document, PipelineSpec& spec) {
  const std::vector<JsonObject> steps = steps_of(document.get_object("decoder"), "decoders");
  if (steps.empty()) refuse(document, "a tokenizer without a decoder");
  const std::string type = steps.front().require_string("type");
  if (steps.size() == 1 && type == "ByteLevel") {
    spec.decoder.kind = DecoderSpec::Kind::kByteLevel;
  } else if (steps.size() == 1 && type == "Metaspace") {
    spec.decoder.kind = DecoderSpec::Kind::kMetaspace;
    spec.decoder.mark = parse_mark(steps.front());
    spec.decoder.strips_first_marks = parse_prepend_scheme(steps.front()) != PrependScheme::kNever;
  } else {
    parse_piece_decoders(steps, spec.decoder);
  }
}

}  // namespace

std::string_view gpt2_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

std::string_view qwen2_pattern() {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

void parse_pipeline_steps(const JsonObject& document, PipelineSpec& spec) {
  for (const JsonObject& step : steps_of(document.get_object("normalizer"), "normalizers")) {
    spec.normalizer.push_back(parse_normalizer(step));
  }
  parse_pre_tokenizers(document, spec);
  parse_post_processors(document, spec);
  parse_decoder(document, spec);
}

}  // namespace caption::text
