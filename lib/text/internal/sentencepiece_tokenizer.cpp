#include "text/internal/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/byte_piece.h"
#include "text/internal/byte_run.h"
#include "text/internal/memory_reserve.h"
#include "text/internal/normalizer.h"
#include "text/internal/sentencepiece_file.h"
#include "text/internal/unigram_model.h"
#include "text/internal/vocabulary.h"

namespace caption::text {
namespace {

// Upper bounds of what sentencepiece allocates per byte of a model that it loads (15 bytes were
// measured), and per byte of a text that it encodes (300 were measured on long texts).
constexpr std::size_t kLoadBytesPerByte = 32;
constexpr std::size_t kEncodeBytesPerByte = 640;
constexpr std::size_t kLeastReserveBytes = 64 << 10;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// The contribution of an id to decode().
struct Token {
  enum class Kind { kText, kByte, kSpecial, kUnassigned };
  std::string bytes;  // U+2581 is already replaced by a space
  Kind kind = Kind::kUnassigned;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const TokenizerFiles& files) {
    const std::string model_name = files.folder + "/tokenizer.model";
    const SentencePieceModel model =
        parse_sentencepiece_model(files.tokenizer_model.value_or(""), model_name);
    const std::vector<Piece>& pieces = model.pieces;
    const TokenizerConfig config = parse_tokenizer_config(files);
    prefix_rule_ = config.prefix_rule;
    if (model.type == SentencePieceModel::Type::kBpe) {
      load_processor(pieces, model_name);
    } else {
      kind_ = "SentencePiece Unigram";
      check_unigram(files, pieces, model_name);
      make_unigram(pieces, config, model_name);
    }
    set_up(pieces, config, files.folder + "/tokenizer_config.json");
  }

  // `pieces` are those of a BPE model.
  SentencePieceTokenizer(const std::vector<Piece>& pieces, const TokenizerConfig& config,
                         const std::string& name) {
    prefix_rule_ = config.prefix_rule;
    load_processor(pieces, name);
    set_up(pieces, config, name);
  }

  std::vector<TokenId> encode(std::string_view text, AddedTokens added,
                              AddedEnds ends) const override {
    std::vector<TokenId> ids;
    if (adds_bos_ && ends.beginning) ids.push_back(*bos_id_);
    const std::string valid = make_valid_utf8(text);
    const AddedTokenMatcher& matcher = added == AddedTokens::kRecognise ? matcher_ : vocabulary_;
    for (const Segment& segment : matcher.split(valid)) {
      if (segment.token != nullptr) {
        ids.push_back(segment.token->id);
      } else {
        const bool at_start = segment.text.data() == valid.data();
        encode_segment(segment.text, at_start, added, &ids);
      }
    }
    if (adds_eos_ && ends.end) ids.push_back(*eos_id_);
    return ids;
  }

  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    std::string byte_run;
    for (const TokenId id : ids) {
      const Token& token = token_at(id);
      if (token.kind == Token::Kind::kByte) {
        byte_run += token.bytes;
      } else if (token.kind == Token::Kind::kText) {
        text += decode_byte_run(byte_run);
        byte_run.clear();
        text += token.bytes;
      }
    }
    text += decode_last_byte_run(byte_run);
    if (strips_leading_space() && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  std::string token_bytes(TokenId id) const override { return token_at(id).bytes; }
  bool is_byte_fallback(TokenId id) const override {
    return token_at(id).kind == Token::Kind::kByte;
  }
  bool strips_leading_space() const override { return prefix_rule_ != PrefixRule::kNone; }
  std::string kind() const override { return kind_; }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<TokenId> find_token(std::string_view piece) const override {
    const auto it = ids_.find(std::string(piece));
    return it == ids_.end() ? std::nullopt : std::optional<TokenId>(it->second);
  }
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }

 private:
  // Sets the tokens and the ends of texts; the model and prefix_rule_ are set.
  void set_up(const std::vector<Piece>& pieces, const TokenizerConfig& config,
              const std::string& config_name) {
    add_pieces(pieces, config);
    add_configured_tokens(pieces, config);
    const std::string bos_token = config.bos_token.value_or("<s>");
    const std::string eos_token = config.eos_token.value_or("</s>");
    bos_id_ = find_token(bos_token);
    eos_id_ = find_token(eos_token);
    const auto require = [&](bool adds, const char* key, const std::string& content,
                             std::optional<TokenId> id) {
      if (!adds || id) return;
      fail_bad_file(config_name + ": " + key + " " + json_quote(content) +
                    " is to be added to every text, but has no id");
    };
    require(config.adds_bos, "bos_token", bos_token, bos_id_);
    require(config.adds_eos, "eos_token", eos_token, eos_id_);
    adds_bos_ = config.adds_bos;
    adds_eos_ = config.adds_eos;
  }

  void load_processor(const std::vector<Piece>& pieces, const std::string& name) {
    const std::string model = write_sentencepiece_model(pieces);
    const MemoryReserve reserve(kLeastReserveBytes + model.size() * kLoadBytesPerByte);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) {
      fail_bad_file(name + ": sentencepiece refuses it: " + status.ToString());
    }
  }

  // The reference takes a unigram model as LLaMA's only for LlamaTokenizer, and then pieces 0, 1
  // and 2 for the unknown, first and last token.
  static void check_unigram(const TokenizerFiles& files, const std::vector<Piece>& pieces,
                            const std::string& name) {
    const std::string config_name = files.folder + "/tokenizer_config.json";
    const std::string tokenizer_class =
        JsonObject::parse(files.tokenizer_config_json.value_or("{}"), config_name,
                          ErrorCode::kBadModel)
            .get_string("tokenizer_class", "LlamaTokenizer");
    if (tokenizer_class != "LlamaTokenizer" && tokenizer_class != "LlamaTokenizerFast") {
      throw Error(ErrorCode::kUnavailable,
                  config_name + ": tokenizer_class " + json_quote(tokenizer_class) +
                      " with a unigram tokenizer.model is not supported by this build; a "
                      "tokenizer.json beside it would be read");
    }
    constexpr PieceType kWanted[] = {PieceType::kUnknown, PieceType::kControl, PieceType::kControl};
    for (std::size_t id = 0; id < std::size(kWanted); ++id) {
      if (id < pieces.size() && pieces[id].type == kWanted[id]) continue;
      throw Error(ErrorCode::kUnavailable,
                  name + ": piece " + std::to_string(id) + " is not of type " +
                      (id == 0 ? "UNKNOWN" : "CONTROL") +
                      "; this build reads unigram models whose first pieces are <unk>, <s>, </s>");
    }
  }

  void make_unigram(const std::vector<Piece>& pieces, const TokenizerConfig& config,
                    const std::string& name) {
    UnigramSpec spec;
    spec.falls_back_to_bytes = true;
    const std::string first[] = {pieces[0].text, config.bos_token.value_or(pieces[1].text),
                                 config.eos_token.value_or(pieces[2].text)};
    for (std::size_t id = 0; id < pieces.size(); ++id) {
      const bool is_first = id < std::size(first);
      const std::string& text = is_first ? first[id] : pieces[id].text;
      if (unigram_vocabulary_.insert(text, static_cast<TokenId>(id)) !=
          Vocabulary::Inserted::kYes) {
        fail_bad_file(name + ": piece " + json_quote(text) + " is there twice");
      }
      spec.scores.push_back(is_first ? 0.0 : double{pieces[id].score});
    }
    unigram_.emplace(std::move(spec), unigram_vocabulary_);
  }

  // Registers the pieces of the model file. The reference treats control and user-defined pieces as
  // added tokens; flags that the configuration gives for the same content replace the defaults
  // below.
  void add_pieces(const std::vector<Piece>& pieces, const TokenizerConfig& config) {
    std::unordered_set<std::string_view> configured;
    for (const AddedToken& token : config.added_tokens) configured.insert(token.content);
    tokens_.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const auto id = static_cast<TokenId>(i);
      const bool is_special =
          piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
      set_token(id, piece.text, is_special);
      if (piece.type == PieceType::kUserDefined) {
        vocabulary_.add(piece.text, AddedToken{.content = piece.text, .id = id});
      }
      if ((is_special || piece.type == PieceType::kUserDefined) &&
          !configured.contains(piece.text)) {
        matcher_.add(piece.text,
                     AddedToken{.content = piece.text, .id = id, .is_special = is_special});
      }
    }
  }

  void add_configured_tokens(const std::vector<Piece>& pieces, const TokenizerConfig& config) {
    std::unordered_set<std::string_view> control;
    for (const Piece& piece : pieces) {
      if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown) {
        control.insert(piece.text);
      }
    }
    const std::unordered_set<std::string_view> special(config.special_tokens.begin(),
                                                       config.special_tokens.end());
    for (AddedToken token : config.added_tokens) {
      if (token.content.empty()) continue;
      token.is_special =
          token.is_special || special.contains(token.content) || control.contains(token.content);
      // The reference matches the model's control pieces in the raw text, whatever the
      // configuration says.
      token.is_normalized = token.is_normalized && !control.contains(token.content);
      set_token(token.id, token.content, token.is_special);
      if (token.is_normalized) {
        normalized_matcher_.add(normalize(token.content), token);
      } else {
        matcher_.add(token.content, token);
      }
    }
  }

  void set_token(TokenId id, const std::string& content, bool is_special) {
    const auto idx = static_cast<std::size_t>(id);
    if (idx >= tokens_.size()) tokens_.resize(idx + 1);
    const int byte = byte_of_piece(content);
    if (is_special) {
      tokens_[idx] = {"", Token::Kind::kSpecial};
    } else if (byte >= 0) {
      tokens_[idx] = {std::string(1, static_cast<char>(byte)), Token::Kind::kByte};
    } else {
      tokens_[idx] = {replace_all(content, kSpaceMark, " "), Token::Kind::kText};
    }
    ids_.insert_or_assign(content, id);
  }

  const Token& token_at(TokenId id) const {
    static const Token kUnassigned;
    CAPTION_CHECK(id >= 0, "token id " + std::to_string(id) + " is negative");
    return id < vocab_size() ? tokens_[static_cast<std::size_t>(id)] : kUnassigned;
  }

  // The normaliser of the reference; with the legacy rule it also prepends U+2581 to every text.
  std::string normalize(std::string_view text) const {
    if (prefix_rule_ != PrefixRule::kEverySegmentAlways) return std::string(text);
    return std::string(kSpaceMark) + replace_all(text, " ", kSpaceMark);
  }

  // Encodes a part of the raw text that contains no added token of matcher_.
  void encode_segment(std::string_view raw, bool at_start, AddedTokens added,
                      std::vector<TokenId>* ids) const {
    const std::string text = normalize(raw);
    if (added == AddedTokens::kPlainText || normalized_matcher_.empty()) {
      encode_piece(text, at_start, ids);
      return;
    }
    for (const Segment& segment : normalized_matcher_.split(text)) {
      if (segment.token != nullptr) {
        ids->push_back(segment.token->id);
      } else {
        encode_piece(segment.text, at_start && segment.text.data() == text.data(), ids);
      }
    }
  }

  void encode_piece(std::string_view normalized, bool at_start, std::vector<TokenId>* ids) const {
    std::string text = replace_all(normalized, " ", kSpaceMark);
    const bool wants_mark = prefix_rule_ == PrefixRule::kEverySegment ||
                            (prefix_rule_ == PrefixRule::kFirstSegment && at_start);
    if (wants_mark && !text.starts_with(kSpaceMark)) text.insert(0, kSpaceMark);
    if (unigram_) {
      ModelScratch scratch;
      unigram_->tokenize(text, &scratch, ids);
      return;
    }
    std::vector<int> piece_ids;
    const MemoryReserve reserve(kLeastReserveBytes + text.size() * kEncodeBytesPerByte);
    const auto status = processor_.Encode(text, &piece_ids);
    CAPTION_CHECK(status.ok(), "sentencepiece: " + status.ToString());
    ids->insert(ids->end(), piece_ids.begin(), piece_ids.end());
  }

  sentencepiece::SentencePieceProcessor processor_;  // holds a BPE model
  Vocabulary unigram_vocabulary_;
  std::optional<UnigramModel> unigram_;  // refers to unigram_vocabulary_
  PrefixRule prefix_rule_ = PrefixRule::kNone;
  AddedTokenMatcher matcher_;             // matches in the raw text
  AddedTokenMatcher normalized_matcher_;  // matches in normalised text
  AddedTokenMatcher vocabulary_;          // user-defined pieces only, for AddedTokens::kPlainText
  std::vector<Token> tokens_;             // indexed by id
  std::unordered_map<std::string, TokenId> ids_;
  std::string kind_ = "SentencePiece BPE";
  std::optional<TokenId> bos_id_;
  std::optional<TokenId> eos_id_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
};

}  // namespace

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(const TokenizerFiles& files) {
  return std::make_unique<const SentencePieceTokenizer>(files);
}

std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(const std::vector<Piece>& pieces,
                                                              const TokenizerConfig& config,
                                                              const std::string& name) {
  check_pieces(pieces, name);
  return std::make_unique<const SentencePieceTokenizer>(pieces, config, name);
}

}  // namespace caption::text
