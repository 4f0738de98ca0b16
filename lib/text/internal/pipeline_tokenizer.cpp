#include "text/internal/pipeline_tokenizer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/byte_level.h"
#include "text/internal/byte_piece.h"
#include "text/internal/byte_run.h"

namespace caption::text {
namespace {

// Far above those of published tokenizers: the bytes that all tokens contribute to texts, and those
// of the added tokens as they are matched, which bound the memory of their trie.
constexpr std::size_t kMaxDecodedBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxAddedBytes = 4 << 20;

// The ids of the words that a text repeats. They are copied from the ids that encode() has made so
// far, so that an entry is a reference; a word takes the place of another one with the same slot.
class WordCache {
 public:
  explicit WordCache(std::size_t text_bytes)
      : entries_(std::clamp(std::bit_ceil(text_bytes / kBytesPerEntry + 1), kLeast, kMost)) {}

  struct Entry {
    std::string_view word;
    std::size_t first_id = 0;  // index in the list of ids
    std::size_t num_ids = 0;
  };

  // The entry of a word, or of another word, to be replaced.
  Entry& entry_of(std::string_view word) { return entries_[hash_of(word) & (entries_.size() - 1)]; }

 private:
  static constexpr std::size_t kBytesPerEntry = 8;
  static constexpr std::size_t kLeast = 16;
  static constexpr std::size_t kMost = 1 << 16;  // 2 MiB

  static std::size_t hash_of(std::string_view word) {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;
    std::uint64_t hash = word.size() * kFactor;
    for (std::size_t at = 0; at < word.size(); at += sizeof(hash)) {
      std::uint64_t part = 0;
      std::memcpy(&part, word.data() + at, std::min(sizeof(part), word.size() - at));
      hash = (hash ^ part) * kFactor;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash >> 20);
  }

  std::vector<Entry> entries_;
};

// The state of one call of encode(). The views in it refer to the text and to the arena.
struct Encoding {
  explicit Encoding(std::size_t text_bytes)
      : arena(text_bytes), regex(search_budget_us(text_bytes)), cache(text_bytes) {}
  std::vector<TokenId> ids;
  TextArena arena;
  RegexScratch regex;
  ModelScratch model;
  std::vector<Word> words;
  std::vector<Word> other_words;
  WordCache cache;
};

// The contribution of an id to decode().
struct Token {
  enum class Kind { kText, kByte, kSpecial, kUnassigned };
  std::uint64_t begin = 0;  // place of its bytes in PipelineTokenizer::bytes_
  std::uint32_t length = 0;
  Kind kind = Kind::kUnassigned;
};

// Added tokens to look for in the raw text and, after it is normalised, between those.
struct Matchers {
  AddedTokenMatcher raw;
  AddedTokenMatcher normalized;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  PipelineTokenizer(PipelineSpec spec, const std::string& bos_token, const std::string& eos_token)
      : normalizer_(std::move(spec.normalizer)),
        pre_tokenizer_(spec.pre_tokenizer, spec.name + ": pre_tokenizer"),
        vocabulary_(std::move(spec.vocabulary)),
        decoder_(std::move(spec.decoder)),
        added_tokens_(std::move(spec.added_tokens)),
        added_index_(std::move(spec.added_index)),
        prefix_ids_(std::move(spec.prefix_ids)),
        suffix_ids_(std::move(spec.suffix_ids)) {
    if (const BpeSpec* bpe = std::get_if<BpeSpec>(&spec.model)) {
      kind_ = bpe->alphabet == BpeSpec::Alphabet::kBytes ? "byte-level BPE" : "BPE of characters";
      model_ = std::make_unique<const BpeModel>(*bpe, vocabulary_);
    } else {
      model_ = std::make_unique<const UnigramModel>(std::get<UnigramSpec>(std::move(spec.model)),
                                                    vocabulary_);
    }
    set_tokens(spec.name + ": decoder");
    add_matchers(spec.name);
    bos_id_ = find_token(bos_token);
    eos_id_ = find_token(eos_token);
    for (const auto* ids : {&prefix_ids_, &suffix_ids_}) {
      for (const TokenId id : *ids) {
        if (token_at(id).kind != Token::Kind::kUnassigned) continue;
        fail_bad_file(spec.name + ": post_processor: there is no token " + std::to_string(id));
      }
    }
  }

  std::vector<TokenId> encode(std::string_view text, AddedTokens added,
                              AddedEnds ends) const override {
    if (text.size() > kMaxTextBytes) {
      throw Error(ErrorCode::kTooLarge, "a text of " + std::to_string(text.size()) +
                                            " bytes is too long for the tokenizer");
    }
    Encoding encoding(text.size());
    if (!is_valid_utf8(text)) text = encoding.arena.keep(make_valid_utf8(text), "UTF-8");
    const Matchers& matchers = added == AddedTokens::kRecognise ? recognised_ : plain_;
    if (ends.beginning) encoding.ids = prefix_ids_;
    for (const Segment& segment : matchers.raw.split(text)) {
      if (segment.token != nullptr) {
        encoding.ids.push_back(segment.token->id);
      } else {
        const bool is_first = segment.text.data() == text.data();
        encode_segment({.text = segment.text, .is_first = is_first}, matchers, encoding);
      }
    }
    if (ends.end) {
      encoding.ids.insert(encoding.ids.end(), suffix_ids_.begin(), suffix_ids_.end());
    }
    return std::move(encoding.ids);
  }

  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    std::string stream;    // bytes that are one UTF-8 text
    std::string byte_run;  // bytes of byte-fallback tokens
    bool is_first = true;
    for (const TokenId id : ids) {
      const Token& token = token_at(id);
      if (token.kind == Token::Kind::kByte) {
        byte_run += bytes_of(token);
      } else if (token.kind == Token::Kind::kText) {
        if (!byte_run.empty()) stream += decode_byte_run(std::exchange(byte_run, ""));
        if (is_first && decoder_.strips_first_marks) {
          stream += first_token_bytes(id);
        } else {
          stream += bytes_of(token);
        }
      }
      is_first = is_first && (token.kind == Token::Kind::kSpecial || token.length == 0);
    }
    stream += decode_last_byte_run(byte_run);
    text = is_valid_utf8(stream) ? std::move(stream) : make_valid_utf8(stream);
    if (strips_leading_space() && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  std::string token_bytes(TokenId id) const override { return std::string(bytes_of(token_at(id))); }
  std::string first_token_bytes(TokenId id) const override {
    if (!decoder_.strips_first_marks || token_at(id).kind != Token::Kind::kText) {
      return token_bytes(id);
    }
    return replace_all(content_of(id), decoder_.mark, "");
  }
  bool is_byte_fallback(TokenId id) const override {
    return token_at(id).kind == Token::Kind::kByte;
  }
  bool strips_leading_space() const override { return decoder_.strips_leading_space; }
  std::string kind() const override { return kind_; }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<TokenId> find_token(std::string_view piece) const override {
    const auto added = added_index_.find(std::string(piece));
    if (added != added_index_.end()) return added_tokens_[added->second].id;
    return vocabulary_.find(piece);
  }
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }

 private:
  void add_matchers(const std::string& name) {
    std::size_t num_bytes = 0;
    for (const AddedToken& token : added_tokens_) {
      const std::string pattern =
          token.is_normalized ? normalized_pattern(token, name) : token.content;
      num_bytes += pattern.size();
      if (num_bytes > kMaxAddedBytes) {
        fail_unsupported(name + ": the added tokens have more than " +
                         std::to_string(kMaxAddedBytes) + " bytes; this build reads no more");
      }
      (token.is_normalized ? recognised_.normalized : recognised_.raw).add(pattern, token);
      // What the vocabulary itself holds and no one calls special is part of plain text.
      if (token.is_special || !vocabulary_.find(token.content)) continue;
      (token.is_normalized ? plain_.normalized : plain_.raw).add(pattern, token);
    }
  }

  std::string normalized_pattern(const AddedToken& token, const std::string& name) const {
    try {
      return normalizer_.normalize(token.content);
    } catch (const Error& error) {
      fail_unsupported(name + ": the added token " + json_quote(token.content) + ": " +
                       error.what());
    }
  }

  // `where` names the decoder in messages.
  void set_tokens(const std::string& where) {
    tokens_.resize(static_cast<std::size_t>(vocabulary_.end_id()));
    for (TokenId id = 0; id < vocabulary_.end_id(); ++id) {
      if (const auto content = vocabulary_.text(id)) set_token(id, *content, false, where);
    }
    for (const AddedToken& token : added_tokens_) {
      added_by_id_.insert_or_assign(token.id, token.content);
      set_token(token.id, token.content, token.is_special, where);
    }
  }

  void set_token(TokenId id, std::string_view content, bool is_special, const std::string& where) {
    const auto idx = static_cast<std::size_t>(id);
    if (idx >= tokens_.size()) tokens_.resize(idx + 1);
    Token& token = tokens_[idx];
    token = {.begin = bytes_.size(), .length = 0, .kind = Token::Kind::kSpecial};
    if (is_special) return;
    token.kind = Token::Kind::kText;
    switch (decoder_.kind) {
      case DecoderSpec::Kind::kByteLevel:
        bytes_ += bytes_of_byte_level(content).value_or(std::string(content));
        break;
      case DecoderSpec::Kind::kMetaspace: bytes_ += replace_all(content, decoder_.mark, " "); break;
      case DecoderSpec::Kind::kPieces: {
        std::string piece = decoded_piece(content, where);
        const int byte = decoder_.falls_back_to_bytes ? byte_of_piece(piece) : -1;
        if (byte >= 0) {
          token.kind = Token::Kind::kByte;
          piece.assign(1, static_cast<char>(byte));
        }
        bytes_ += piece;
        break;
      }
    }
    token.length = static_cast<std::uint32_t>(bytes_.size() - token.begin);
  }

  std::string decoded_piece(std::string_view content, const std::string& where) const {
    std::string piece(content);
    for (const auto& [from, to] : decoder_.replacements) {
      auto replaced = replace_bounded(piece, from, to,
                                      kMaxDecodedBytes - std::min(bytes_.size(), kMaxDecodedBytes));
      if (!replaced) {
        fail_unsupported(where + ": the texts of the tokens have more than " +
                         std::to_string(kMaxDecodedBytes) + " bytes; this build reads no more");
      }
      piece = *std::move(replaced);
    }
    return piece;
  }

  const Token& token_at(TokenId id) const {
    static constexpr Token kUnassigned;
    CAPTION_CHECK(id >= 0, "token id " + std::to_string(id) + " is negative");
    return id < vocab_size() ? tokens_[static_cast<std::size_t>(id)] : kUnassigned;
  }
  std::string_view bytes_of(const Token& token) const {
    return std::string_view(bytes_).substr(token.begin, token.length);
  }
  std::string_view content_of(TokenId id) const {
    const auto added = added_by_id_.find(id);
    if (added != added_by_id_.end()) return added->second;
    return vocabulary_.text(id).value_or(std::string_view());
  }

  // Encodes a part of the raw text that holds no added token of matchers.raw.
  void encode_segment(const Word& raw, const Matchers& matchers, Encoding& encoding) const {
    const NormalizedText normalized = normalizer_.normalize(raw.text, &encoding.arena);
    const bool keeps_start = raw.is_first && normalized.keeps_start;
    for (const Segment& segment : matchers.normalized.split(normalized.text)) {
      if (segment.token != nullptr) {
        encoding.ids.push_back(segment.token->id);
        continue;
      }
      const bool is_first = keeps_start && segment.text.data() == normalized.text.data();
      encoding.words.assign(1, {.text = segment.text, .is_first = is_first});
      pre_tokenizer_.split(&encoding.words, &encoding.other_words, &encoding.regex,
                           &encoding.arena);
      for (const Word& word : encoding.words) encode_word(word.text, encoding);
    }
  }

  void encode_word(std::string_view word, Encoding& encoding) const {
    std::vector<TokenId>& ids = encoding.ids;
    WordCache::Entry& entry = encoding.cache.entry_of(word);
    const std::size_t first_id = ids.size();
    if (entry.word == word) {
      ids.resize(first_id + entry.num_ids);
      std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(entry.first_id), entry.num_ids,
                  ids.begin() + static_cast<std::ptrdiff_t>(first_id));
      return;
    }
    model_->tokenize(word, &encoding.model, &ids);
    entry = {.word = word, .first_id = first_id, .num_ids = ids.size() - first_id};
  }

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Vocabulary vocabulary_;
  std::unique_ptr<const SubwordModel> model_;  // refers to vocabulary_
  DecoderSpec decoder_;
  std::vector<AddedToken> added_tokens_;
  std::unordered_map<std::string, std::size_t> added_index_;  // keyed by content
  std::unordered_map<TokenId, std::string> added_by_id_;      // contents, keyed by id
  Matchers recognised_;
  Matchers plain_;  // for AddedTokens::kPlainText
  std::vector<TokenId> prefix_ids_;
  std::vector<TokenId> suffix_ids_;
  std::vector<Token> tokens_;  // indexed by id
  std::string bytes_;          // bytes of all tokens, one after the other
  std::optional<TokenId> bos_id_;
  std::optional<TokenId> eos_id_;
  std::string kind_ = "Unigram";
};

}  // namespace

std::unique_ptr<const Tokenizer> make_pipeline_tokenizer(PipelineSpec spec,
                                                         const std::string& bos_token,
                                                         const std::string& eos_token) {
  return std::make_unique<const PipelineTokenizer>(std::move(spec), bos_token, eos_token);
}

}  // namespace caption::text
