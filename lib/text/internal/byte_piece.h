// text/internal/byte_piece.h: the tokens <0x00>..<0xFF>, which stand for single bytes where a
// vocabulary lacks a character.
#pragma once

#include <array>
#include <string_view>

#include "text/internal/vocabulary.h"

namespace caption::text {

// The byte that a token such as "<0x41>" stands for (its digits may be lower case), or -1 for any
// other token.
int byte_of_piece(std::string_view piece);

// The id of the token of each byte, with capital digits; -1 where the vocabulary has none.
std::array<TokenId, 256> find_byte_pieces(const Vocabulary& vocabulary);

}  // namespace caption::text
