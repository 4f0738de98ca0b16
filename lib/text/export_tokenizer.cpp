#include "text/export_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/json.h"
#include "text/internal/normalizer.h"
#include "text/internal/open_pipeline.h"
#include "text/internal/pre_tokenization.h"
#include "text/internal/sentencepiece_file.h"
#include "text/internal/tokenizer_choice.h"
#include "text/internal/tokenizer_files.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr float kAddedScore = -1000;
constexpr float kUnusedScore = -10000;

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::kUnavailable,
              name + ": " + what + "; the formats of folders, such as nf4, keep the tokenizer");
}

// Tokens that llama.cpp's converter takes for control tokens whatever their configuration says.
bool looks_special(std::string_view token) {
  constexpr std::string_view kNames[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  constexpr std::string_view kWideBar = "\xEF\xBD\x9C";  // U+FF5C
  const auto is_between = [token](std::string_view head, std::string_view tail) {
    return token.starts_with(head) && token.ends_with(tail);
  };
  return std::find(std::begin(kNames), std::end(kNames), token) != std::end(kNames) ||
         is_between("<|", "|>") ||
         is_between("<" + std::string(kWideBar), std::string(kWideBar) + ">") ||
         is_between("<unused", ">");
}

// The lists while they are made.
class ListBuilder {
 public:
  ListBuilder(std::string model, std::string pre, std::int64_t num_tokens) {
    lists_.model = std::move(model);
    lists_.pre = std::move(pre);
    const auto count = static_cast<std::size_t>(num_tokens);
    lists_.tokens.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
      lists_.tokens.push_back("[PAD" + std::to_string(id) + "]");
    }
    lists_.types.assign(count, TokenTables::kUnused);
    if (lists_.model == "llama") lists_.scores.assign(count, kUnusedScore);
  }

  bool has_row(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < lists_.tokens.size();
  }

  void set(TokenId id, std::string_view text, std::int32_t type, float score) {
    if (!has_row(id)) return;
    const auto at = static_cast<std::size_t>(id);
    lists_.tokens[at] = text;
    lists_.types[at] = type;
    if (!lists_.scores.empty()) lists_.scores[at] = score;
  }

  void add(const AddedToken& token, bool is_special, const std::string& name) {
    if (token.strips_left || token.strips_right || token.is_single_word) {
      refuse(name, "the added token " + json_quote(token.content) +
                       " takes white space with it or matches whole words alone (lstrip, rstrip, "
                       "single_word), which a GGUF file cannot say");
    }
    if (is_special || looks_special(token.content)) {
      set(token.id, token.content, TokenTables::kControl, kAddedScore);
    } else {
      set(token.id, replace_all(token.content, kSpaceMark, " "), TokenTables::kUserDefined,
          kAddedScore);
    }
  }

  std::optional<TokenId> find(std::string_view text) const {
    if (text.empty()) return std::nullopt;
    const auto found = std::find(lists_.tokens.begin(), lists_.tokens.end(), text);
    if (found == lists_.tokens.end()) return std::nullopt;
    return static_cast<TokenId>(found - lists_.tokens.begin());
  }

  TokenLists& lists() { return lists_; }

 private:
  TokenLists lists_;
};

// Sets the ids of unknown and padding tokens that tokenizer_config.json names.
void set_other_ids(const TokenizerFiles& files, ListBuilder& builder) {
  const JsonObject config =
      JsonObject::parse(files.tokenizer_config_json.value_or("{}"),
                        files.folder + "/tokenizer_config.json", ErrorCode::kBadModel);
  const auto find = [&](const std::string& key) -> std::optional<TokenId> {
    auto text = config.find_string_at(key + ".content");
    if (!text) text = config.find_string_at(key);
    return text ? builder.find(*text) : std::nullopt;
  };
  if (!builder.lists().unknown_id) builder.lists().unknown_id = find("unk_token");
  builder.lists().padding_id = find("pad_token");
}

// Returns the known pre-tokenization that does what a pipeline does.
const PreTokenization& find_pre(const PipelineSpec& spec, const BpeSpec& bpe) {
  const bool is_plain = spec.normalizer.empty();
  const bool is_nfc = spec.normalizer.size() == 1 &&
                      spec.normalizer[0].kind == NormalizerStep::Kind::kForm &&
                      spec.normalizer[0].form == UnicodeForm::kNfc;
  if (!is_plain && !is_nfc) {
    refuse(spec.name, "has a normaliser other than NFC, which a GGUF file cannot hold");
  }
  const bool is_split = spec.pre_tokenizer.size() == 1 &&
                        spec.pre_tokenizer[0].kind == PreTokenizerStep::Kind::kSplit &&
                        spec.pre_tokenizer[0].behavior == SplitBehavior::kIsolated &&
                        !spec.pre_tokenizer[0].is_inverted;
  std::string names;
  for (const PreTokenization& known : known_pre_tokenizations()) {
    names += (names.empty() ? "" : ", ") + std::string(known.names[0]);
    if (is_split && known.is_nfc == is_nfc && known.ignores_merges == bpe.ignores_merges &&
        known.pattern == spec.pre_tokenizer[0].pattern) {
      return known;
    }
  }
  refuse(spec.name,
         "cuts texts into words as none of the pre-tokenizers " + names + " of GGUF files does");
}

// Whether texts get the token `id`, or none, at one of their ends. A token that the configuration
// does not name is that of the post-processor.
bool adds_end(const std::string& name, const std::vector<TokenId>& ids, std::optional<TokenId>& id,
              const char* key) {
  if (ids.empty()) return false;
  if (ids.size() == 1 && !id) id = ids[0];
  if (ids.size() == 1 && ids[0] == id) return true;
  refuse(name, "puts other tokens than " + std::string(key) +
                   " at the ends of texts, which a GGUF file cannot say");
}

TokenLists export_byte_level(const TokenizerFiles& files, Pipeline pipeline,
                             std::int64_t num_tokens) {
  const PipelineSpec& spec = pipeline.spec;
  const BpeSpec* const bpe = std::get_if<BpeSpec>(&spec.model);
  if (bpe == nullptr) {
    refuse(spec.name, "is a Unigram tokenizer; GGUF files of this program hold BPE tokenizers");
  }
  if (bpe->alphabet != BpeSpec::Alphabet::kBytes ||
      spec.decoder.kind != DecoderSpec::Kind::kByteLevel) {
    refuse(spec.name,
           "is a BPE of characters; in a GGUF file its tokens need the scores of a "
           "tokenizer.model, which the folder lacks");
  }
  ListBuilder builder("gpt2", std::string(find_pre(spec, *bpe).names[0]), num_tokens);
  for (TokenId id = 0; id < spec.vocabulary.end_id(); ++id) {
    if (const auto text = spec.vocabulary.text(id)) {
      builder.set(id, *text, TokenTables::kNormal, 0);
    }
  }
  for (const AddedToken& token : spec.added_tokens) {
    builder.add(token, token.is_special, spec.name);
  }
  TokenLists& lists = builder.lists();
  const auto text_of = [&](TokenId id) {
    return std::string(spec.vocabulary.text(id).value_or(std::string_view()));
  };
  lists.merges.reserve(bpe->merges.size());
  for (const BpeSpec::Merge& merge : bpe->merges) {
    lists.merges.push_back(text_of(merge.left) + " " + text_of(merge.right));
  }
  lists.bos_id = builder.find(pipeline.bos_token);
  lists.eos_id = builder.find(pipeline.eos_token);
  lists.adds_bos = adds_end(spec.name, spec.prefix_ids, lists.bos_id, "bos_token");
  lists.adds_eos = adds_end(spec.name, spec.suffix_ids, lists.eos_id, "eos_token");
  set_other_ids(files, builder);
  return std::move(builder.lists());
}

void set_space_prefix(PrefixRule rule, TokenLists& lists) {
  lists.adds_space_prefix = rule != PrefixRule::kNone;
  if (rule == PrefixRule::kFirstSegment) lists.space_prefix = SpacePrefix::kFirstSegment;
  if (rule == PrefixRule::kEverySegment) lists.space_prefix = SpacePrefix::kEverySegment;
}

TokenLists export_sentencepiece(const TokenizerFiles& files, const SentencePieceModel& model,
                                std::int64_t num_tokens) {
  const std::string name = files.folder + "/tokenizer.model";
  if (model.type != SentencePieceModel::Type::kBpe) {
    refuse(name, "is a Unigram tokenizer; GGUF files of this program hold BPE tokenizers");
  }
  const TokenizerConfig config = parse_tokenizer_config(files);
  ListBuilder builder("llama", "default", num_tokens);
  std::unordered_set<std::string_view> control;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    builder.set(id, piece.text, static_cast<std::int32_t>(piece.type), piece.score);
    if (piece.type == PieceType::kUnknown) builder.lists().unknown_id = id;
    if (piece.type == PieceType::kUnknown || piece.type == PieceType::kControl) {
      control.insert(piece.text);
    }
  }
  const std::unordered_set<std::string_view> special(config.special_tokens.begin(),
                                                     config.special_tokens.end());
  for (const AddedToken& token : config.added_tokens) {
    const bool is_control = control.contains(token.content);
    if (token.content.empty() || (is_control && !config.lists_added_tokens)) continue;
    builder.add(token, token.is_special || is_control || special.contains(token.content),
                files.folder + "/tokenizer_config.json");
  }
  TokenLists& lists = builder.lists();
  lists.bos_id = builder.find(config.bos_token.value_or("<s>"));
  lists.eos_id = builder.find(config.eos_token.value_or("</s>"));
  lists.adds_bos = config.adds_bos;
  lists.adds_eos = config.adds_eos;
  set_space_prefix(config.prefix_rule, lists);
  set_other_ids(files, builder);
  return std::move(builder.lists());
}

}  // namespace

TokenLists export_tokenizer(const std::filesystem::path& model_folder, std::int64_t num_tokens) {
  TokenizerFiles files = read_tokenizer_files(model_folder);
  if (!is_sentencepiece(files)) {
    TokenizerFiles kept;
    kept.folder = files.folder;
    kept.tokenizer_config_json = files.tokenizer_config_json;
    return export_byte_level(kept, read_pipeline(std::move(files)), num_tokens);
  }
  const SentencePieceModel model =
      parse_sentencepiece_model(*files.tokenizer_model, files.folder + "/tokenizer.model");
  return export_sentencepiece(files, model, num_tokens);
}

}  // namespace caption::text
