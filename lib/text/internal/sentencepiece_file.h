// text/internal/sentencepiece_file.h: reads tokenizer.model, a serialised ModelProto.
//
// The file is untrusted: the sentencepiece library gets a model that is written from the validated
// pieces, never the bytes of the file.
// Source: sentencepiece_model.proto of https://github.com/google/sentencepiece v0.1.97.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caption::text {

enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Piece {
  std::string text;  // UTF-8; a space is U+2581
  float score = 0.0F;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  enum class Type : std::uint8_t { kUnigram = 1, kBpe = 2 };
  Type type = Type::kBpe;
  std::vector<Piece> pieces;
};

// Parses a model file; the id of a piece is its index.
// Throws Error(kBadModel) "name: ..." unless the bytes are a complete SentencePiece model with
// valid pieces: valid UTF-8, no duplicates, one unknown piece, 0 or 256 byte pieces, finite scores.
// Throws Error(kUnavailable) for a model that is neither BPE nor Unigram.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& name);

// Throws as parse_sentencepiece_model() unless the pieces are those of a model.
void check_pieces(const std::vector<Piece>& pieces, const std::string& name);

// Writes a ModelProto of these pieces for the library: BPE, without normalisation or dummy prefix
// (the caller normalises the text), with byte fallback when there are byte pieces. Ids are
// preserved; control and user-defined pieces get names that no symbol of a text can equal.
std::string write_sentencepiece_model(const std::vector<Piece>& pieces);

}  // namespace caption::text
