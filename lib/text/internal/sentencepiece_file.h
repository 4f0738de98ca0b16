// text/internal/sentencepiece_file.h: reading tokenizer.model, a serialised ModelProto.
//
// The file is hostile until it has passed here: the sentencepiece library is given a model written
// anew from the validated pieces, never the file's own bytes.
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
  float score = 0.0f;
  PieceType type = PieceType::kNormal;
};

// The id of a piece is its index.
// Throws Error(kBadModel) "name: ..." for anything that is not a whole SentencePiece model with
// sane pieces: valid UTF-8, no duplicates, one unknown piece, no or 256 byte pieces, finite
// scores; Error(kUnavailable) for a model that is not BPE.
std::vector<Piece> parse_sentencepiece_model(std::string_view bytes, const std::string& name);

// A ModelProto of these pieces for the library: BPE, no normalisation, no dummy prefix (text is
// normalised by the caller), byte fallback when there are byte pieces. Ids stay; control and
// user-defined pieces get names that no symbol of a text can equal.
std::string write_sentencepiece_model(const std::vector<Piece>& pieces);

// The byte a piece "<0x41>" stands for, or -1.
int byte_of_piece(std::string_view piece);

}  // namespace caption::text
