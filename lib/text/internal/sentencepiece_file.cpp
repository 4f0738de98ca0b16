#include "text/internal/sentencepiece_file.h"

#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/byte_piece.h"

namespace caption::text {
namespace {

constexpr std::size_t kMaxPieces = 1 << 20;  // the largest published vocabularies have 2^18

// Field numbers of the protobuf messages that are read and written here.
constexpr std::uint64_t kModelPieces = 1;
constexpr std::uint64_t kModelTrainerSpec = 2;
constexpr std::uint64_t kModelNormalizerSpec = 3;
constexpr std::uint64_t kPieceText = 1;
constexpr std::uint64_t kPieceScore = 2;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kTrainerModelType = 3;
constexpr std::uint64_t kTrainerByteFallback = 35;
constexpr std::uint64_t kNormalizerAddDummyPrefix = 3;
constexpr std::uint64_t kNormalizerRemoveExtraWhitespaces = 4;
constexpr std::uint64_t kNormalizerEscapeWhitespaces = 5;

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint64_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;  // kVarint, kFixed32, kFixed64
  std::string_view bytes;   // kBytes
};

// Reads the fields of one protobuf message.
class WireReader {
 public:
  WireReader(std::string_view bytes, const char* file_begin, const std::string& name)
      : rest_(bytes), file_begin_(file_begin), name_(name) {}

  bool at_end() const { return rest_.empty(); }

  Field next() {
    const std::uint64_t tag = varint();
    Field field;
    field.number = tag >> 3;
    if (field.number == 0) fail("a field numbered 0");
    switch (tag & 7) {
      case 0: field.value = varint(); break;
      case 1:
        field.type = WireType::kFixed64;
        field.value = fixed(8);
        break;
      case 2: {
        field.type = WireType::kBytes;
        const std::uint64_t length = varint();
        if (length > rest_.size()) fail("a field that ends beyond its message");
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        break;
      }
      case 5:
        field.type = WireType::kFixed32;
        field.value = fixed(4);
        break;
      default: fail("an unknown wire type");
    }
    return field;
  }

  WireReader message(std::string_view bytes) const { return {bytes, file_begin_, name_}; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_bad_file(name_ + ": is not a SentencePiece model: " + what + " before byte " +
                  std::to_string(rest_.data() - file_begin_));
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) fail("a number cut short");
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7Fu) << shift;
      if ((byte & 0x80u) == 0) return value;
    }
    fail("a number of more than ten bytes");
  }

  std::uint64_t fixed(std::size_t size_bytes) {
    if (rest_.size() < size_bytes) fail("a number cut short");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size_bytes; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(size_bytes);
    return value;
  }

  std::string_view rest_;
  const char* file_begin_;
  const std::string& name_;
};

Piece read_piece(WireReader reader, const std::string& where) {
  const auto fail = [&](const std::string& what) { fail_bad_file(where + " " + what); };
  Piece piece;
  while (!reader.at_end()) {
    const Field field = reader.next();
    if (field.number == kPieceText && field.type == WireType::kBytes) {
      piece.text = field.bytes;
    } else if (field.number == kPieceScore && field.type == WireType::kFixed32) {
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    } else if (field.number == kPieceType && field.type == WireType::kVarint) {
      if (field.value < 1 || field.value > 6) {
        fail("has the unknown type " + std::to_string(field.value));
      }
      piece.type = static_cast<PieceType>(field.value);
    }
  }
  return piece;
}

void check_piece(const Piece& piece, const std::string& where) {
  const auto fail = [&](const std::string& what) { fail_bad_file(where + " " + what); };
  if (piece.text.empty()) fail("has no text");
  if (!is_valid_utf8(piece.text)) fail("is not valid UTF-8");
  if (!std::isfinite(piece.score)) fail("has a score that is not finite");
  if (piece.type == PieceType::kByte && byte_of_piece(piece.text) < 0) {
    fail(json_quote(piece.text) + " is of type BYTE; expected <0x00> to <0xFF>");
  }
}

void write_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7Fu) | 0x80u));
  out.push_back(static_cast<char>(value));
}

void write_number(std::string& out, std::uint64_t field, std::uint64_t value) {
  write_varint(out, field << 3);
  write_varint(out, value);
}

void write_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  write_varint(out, (field << 3) | static_cast<std::uint64_t>(WireType::kBytes));
  write_varint(out, bytes.size());
  out += bytes;
}

void write_float(std::string& out, std::uint64_t field, float value) {
  write_varint(out, (field << 3) | static_cast<std::uint64_t>(WireType::kFixed32));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>((bits >> shift) & 0xFFu));
  }
}

// The caller finds control and user-defined pieces before the library gets a text, and the library
// must never produce them: with its real name, such a piece of a single character would match in
// any text and make Encode() fail. The reference implementation treats unused pieces as normal
// ones.
Piece piece_for_library(const Piece& piece, std::size_t id) {
  switch (piece.type) {
    case PieceType::kControl:
    case PieceType::kUserDefined:
      return {"<reserved " + std::to_string(id) + ">", piece.score, PieceType::kControl};
    case PieceType::kUnused: return {piece.text, piece.score, PieceType::kNormal};
    default: return piece;
  }
}

}  // namespace

void check_pieces(const std::vector<Piece>& pieces, const std::string& name) {
  const auto fail = [&](const std::string& what) { fail_bad_file(name + ": " + what); };
  if (pieces.empty()) fail("is not a SentencePiece model: it holds no pieces");
  std::unordered_set<std::string_view> texts;
  std::size_t num_unknown = 0;
  std::size_t num_bytes = 0;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const Piece& piece = pieces[id];
    check_piece(piece, name + ": piece " + std::to_string(id));
    if (!texts.insert(piece.text).second)
      fail("piece " + json_quote(piece.text) + " is there twice");
    if (piece.type == PieceType::kUnknown) ++num_unknown;
    if (piece.type == PieceType::kByte) ++num_bytes;
  }
  if (num_unknown != 1) {
    fail("has " + std::to_string(num_unknown) + " unknown pieces; expected one");
  }
  if (num_bytes != 0 && num_bytes != 256) {
    fail("has " + counted(num_bytes, "byte piece") + "; expected none or 256");
  }
}

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("version https://git-lfs")) {
    throw Error(ErrorCode::kBadModel,
                name + ": is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`");
  }
  std::vector<Piece> pieces;
  std::uint64_t model_type = 1;  // 1 is unigram, the default of the format
  bool has_trainer_spec = false;
  WireReader reader(bytes, bytes.data(), name);
  while (!reader.at_end()) {
    const Field field = reader.next();
    if (field.type != WireType::kBytes) continue;
    if (field.number == kModelPieces) {
      if (pieces.size() == kMaxPieces) {
        fail_bad_file(name + ": holds more than " + std::to_string(kMaxPieces) + " pieces");
      }
      pieces.push_back(read_piece(reader.message(field.bytes),
                                  name + ": piece " + std::to_string(pieces.size())));
    } else if (field.number == kModelTrainerSpec) {
      has_trainer_spec = true;
      for (WireReader spec = reader.message(field.bytes); !spec.at_end();) {
        const Field entry = spec.next();
        if (entry.number == kTrainerModelType && entry.type == WireType::kVarint) {
          model_type = entry.value;
        }
      }
    }
  }
  check_pieces(pieces, name);
  if (!has_trainer_spec) {
    fail_bad_file(name + ": ends after its pieces; its trainer_spec is missing");
  }
  for (const auto type : {SentencePieceModel::Type::kUnigram, SentencePieceModel::Type::kBpe}) {
    if (model_type == static_cast<std::uint64_t>(type)) return {type, std::move(pieces)};
  }
  throw Error(ErrorCode::kUnavailable,
              name + ": is a SentencePiece model of type " + std::to_string(model_type) +
                  " (3 word, 4 char); this build reads types 1 (unigram) and 2 (BPE)");
}

std::string write_sentencepiece_model(const std::vector<Piece>& pieces) {
  std::string model;
  bool has_bytes = false;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const Piece piece = piece_for_library(pieces[id], id);
    has_bytes = has_bytes || piece.type == PieceType::kByte;
    std::string message;
    write_bytes(message, kPieceText, piece.text);
    write_float(message, kPieceScore, piece.score);
    write_number(message, kPieceType, static_cast<std::uint64_t>(piece.type));
    write_bytes(model, kModelPieces, message);
  }
  std::string trainer;
  write_number(trainer, kTrainerModelType,
               static_cast<std::uint64_t>(SentencePieceModel::Type::kBpe));
  write_number(trainer, kTrainerByteFallback, has_bytes ? 1 : 0);
  write_bytes(model, kModelTrainerSpec, trainer);
  std::string normalizer;
  write_number(normalizer, kNormalizerAddDummyPrefix, 0);
  write_number(normalizer, kNormalizerRemoveExtraWhitespaces, 0);
  write_number(normalizer, kNormalizerEscapeWhitespaces, 0);
  write_bytes(model, kModelNormalizerSpec, normalizer);
  return model;
}

}  // namespace caption::text
