#include "text/internal/byte_piece.h"

#include <string>

namespace caption::text {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::array<TokenId, 256> find_byte_pieces(const Vocabulary& vocabulary) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    const std::string piece = std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">";
    ids[byte] = vocabulary.find(piece).value_or(-1);
  }
  return ids;
}

}  // namespace caption::text
