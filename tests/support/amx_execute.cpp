#include <cstring>

#include "tests/support/amx_instructions.h"

#if defined(__x86_64__)

namespace caption::testing {
namespace {

using Tile = AmxState::Tile;

// Round to nearest even, no exceptions, flush to zero, denormals are zero.
class TileRounding {
 public:
  TileRounding() {
    constexpr std::uint32_t kTileMxcsr = 0x9FC0;
    __asm__ volatile("stmxcsr %0" : "=m"(before_) : : "memory");
    __asm__ volatile("ldmxcsr %0" : : "m"(kTileMxcsr) : "memory");
  }
  ~TileRounding() { __asm__ volatile("ldmxcsr %0" : : "m"(before_) : "memory"); }
  TileRounding(const TileRounding&) = delete;
  TileRounding& operator=(const TileRounding&) = delete;

 private:
  std::uint32_t before_;
};

std::uint64_t register_value(const Registers& registers, std::uint64_t next, int number) {
  if (number == AmxInstruction::kNone) return 0;
  if (number == AmxInstruction::kInstructionPointer) return next;
  return registers[static_cast<std::size_t>(number)];
}

unsigned char* pointer(std::uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

const char* load_config(const unsigned char* memory, AmxState& state) {
  std::uint8_t config[64];
  std::memcpy(config, memory, sizeof config);
  if (config[0] > 1) return "#GP: ldtilecfg: a palette other than 0 and 1";
  AmxState loaded;
  if (config[0] == 1) {
    loaded.is_configured = true;
    loaded.start_row = config[1];
    const auto is_reserved = [](int at) {
      return (at >= 2 && at < 16) || (at >= 32 && at < 48) || at >= 56;
    };
    for (int at = 0; at < 64; ++at) {
      if (is_reserved(at) && config[at] != 0) return "#GP: ldtilecfg: a reserved byte is not 0";
    }
    for (int i = 0; i < kNumTiles; ++i) {
      Tile& tile = loaded.tiles[i];
      std::memcpy(&tile.row_bytes, config + 16 + 2 * i, 2);
      tile.rows = config[48 + i];
      if (tile.row_bytes > kMaxTileRowBytes) return "#GP: ldtilecfg: more than 64 bytes in a row";
      if (tile.rows > kMaxTileRows) return "#GP: ldtilecfg: more than 16 rows";
      if ((tile.row_bytes == 0) != (tile.rows == 0)) {
        return "#GP: ldtilecfg: rows or bytes in a row are 0, but not both";
      }
    }
  }
  state = loaded;
  return nullptr;
}

// TILEZERO asks for no more than that.
const char* check_tile(const AmxState& state, int tile) {
  if (!state.is_configured) return "#UD: tiles are not configured";
  if (tile >= kNumTiles || state.tiles[tile].rows == 0) return "#UD: a tile that is not in use";
  return nullptr;
}

const char* check_words(const AmxState& state, int tile) {
  if (const char* const error = check_tile(state, tile)) return error;
  if (state.tiles[tile].row_bytes % 4 != 0) return "#UD: a tile's rows are not of whole words";
  return nullptr;
}

const char* check_transfer(const AmxState& state, const AmxInstruction& instruction) {
  if (!instruction.has_sib) return "#UD: tileloadd, tilestored: no SIB byte";
  if (const char* const error = check_words(state, instruction.tile)) return error;
  if (state.start_row >= state.tiles[instruction.tile].rows) return "#UD: start_row beyond a tile";
  return nullptr;
}

const char* check_product(const AmxState& state, const AmxInstruction& x) {
  if (x.tile == x.source1 || x.tile == x.source2 || x.source1 == x.source2) {
    return "#UD: a product's tiles are not three different ones";
  }
  for (const int tile : {x.tile, x.source1, x.source2}) {
    if (const char* const error = check_words(state, tile)) return error;
  }
  const Tile& c = state.tiles[x.tile];
  const Tile& a = state.tiles[x.source1];
  const Tile& b = state.tiles[x.source2];
  if (c.rows != a.rows || c.row_bytes != b.row_bytes || a.row_bytes / 4 != b.rows) {
    return "#UD: a product's tiles do not fit one another";
  }
  return nullptr;
}

// write_row_and_zero(): the first bytes of a row, zeros behind them.
void write_row(Tile& tile, int row, const void* from) {
  std::memcpy(tile.data[row], from, tile.row_bytes);
  std::memset(tile.data[row] + tile.row_bytes, 0,
              static_cast<std::size_t>(kMaxTileRowBytes - tile.row_bytes));
}

// zero_upper_rows(): from `first` on.
void zero_rows(Tile& tile, int first) {
  std::memset(tile.data[first], 0,
              static_cast<std::size_t>((kMaxTileRows - first) * kMaxTileRowBytes));
}

// One row of c: the even and the odd elements of the pairs have sums of their own, from 0, in the
// order of k; their sum is added to c.
[[gnu::target("avx2,fma"), gnu::noinline]] void dot_row_bf16(const unsigned char* a, const Tile& b,
                                                             float* c) {
  constexpr int kWords = kMaxTileRowBytes / 4;
  const auto as_float = [](std::uint32_t bits) { return __builtin_bit_cast(float, bits); };
  float even[kWords] = {};
  float odd[kWords] = {};
  for (int k = 0; k < b.rows; ++k) {
    std::uint32_t pair;
    std::memcpy(&pair, a + 4 * k, 4);
    std::uint32_t row[kWords];
    std::memcpy(row, b.data[k], sizeof row);
    const float first = as_float(pair << 16);
    const float second = as_float(pair & 0xFFFF0000U);
    for (int n = 0; n < kWords; ++n) {
      even[n] = __builtin_fmaf(first, as_float(row[n] << 16), even[n]);
      odd[n] = __builtin_fmaf(second, as_float(row[n] & 0xFFFF0000U), odd[n]);
    }
  }
  for (int n = 0; n < kWords; ++n) c[n] += even[n] + odd[n];
}

void dot_bf16(const Tile& a, const Tile& b, Tile& c) {
  const TileRounding rounding;
  for (int m = 0; m < c.rows; ++m) {
    float sums[kMaxTileRowBytes / 4];
    std::memcpy(sums, c.data[m], sizeof sums);
    dot_row_bf16(a.data[m], b, sums);
    write_row(c, m, sums);
  }
}

// Sums wrap around.
template <class ByteA, class ByteB>
void dot_bytes(const Tile& a, const Tile& b, Tile& c) {
  constexpr int kWords = kMaxTileRowBytes / 4;
  for (int m = 0; m < c.rows; ++m) {
    std::uint32_t sums[kWords];
    std::memcpy(sums, c.data[m], sizeof sums);
    for (int k = 0; k < b.rows; ++k) {
      for (int n = 0; n < kWords; ++n) {
        for (int i = 0; i < 4; ++i) {
          const int product =
              static_cast<ByteA>(a.data[m][4 * k + i]) * static_cast<ByteB>(b.data[k][4 * n + i]);
          sums[n] += static_cast<std::uint32_t>(product);
        }
      }
    }
    write_row(c, m, sums);
  }
}

void multiply(const AmxInstruction& x, AmxState& state) {
  using Signed = std::int8_t;
  using Unsigned = std::uint8_t;
  const Tile& a = state.tiles[x.source1];
  const Tile& b = state.tiles[x.source2];
  Tile& c = state.tiles[x.tile];
  switch (x.operation) {
    case AmxOperation::kDotSignedSigned: dot_bytes<Signed, Signed>(a, b, c); break;
    case AmxOperation::kDotSignedUnsigned: dot_bytes<Signed, Unsigned>(a, b, c); break;
    case AmxOperation::kDotUnsignedSigned: dot_bytes<Unsigned, Signed>(a, b, c); break;
    case AmxOperation::kDotUnsignedUnsigned: dot_bytes<Unsigned, Unsigned>(a, b, c); break;
    default: dot_bf16(a, b, c); break;
  }
  zero_rows(c, c.rows);
}

}  // namespace

const char* execute_amx(const AmxInstruction& x, const Registers& registers, std::uint64_t next,
                        AmxState& state) {
  const std::uint64_t memory =
      register_value(registers, next, x.base) + static_cast<std::uint64_t>(x.displacement);
  const std::uint64_t offset = register_value(registers, next, x.index) << x.scale;
  switch (x.operation) {
    case AmxOperation::kLoadConfig: return load_config(pointer(memory + offset), state);
    case AmxOperation::kRelease: state = AmxState(); return nullptr;
    case AmxOperation::kZero:
      if (const char* const error = check_tile(state, x.tile)) return error;
      zero_rows(state.tiles[x.tile], 0);
      break;
    case AmxOperation::kLoad: {
      if (const char* const error = check_transfer(state, x)) return error;
      Tile& tile = state.tiles[x.tile];
      zero_rows(tile, state.start_row);
      for (unsigned row = state.start_row; row < tile.rows; ++row) {
        write_row(tile, static_cast<int>(row), pointer(memory + row * offset));
      }
      break;
    }
    case AmxOperation::kStore: {
      if (const char* const error = check_transfer(state, x)) return error;
      const Tile& tile = state.tiles[x.tile];
      for (unsigned row = state.start_row; row < tile.rows; ++row) {
        std::memcpy(pointer(memory + row * offset), tile.data[row], tile.row_bytes);
      }
      break;
    }
    default:
      if (const char* const error = check_product(state, x)) return error;
      multiply(x, state);
  }
  state.start_row = 0;
  return nullptr;
}

}  // namespace caption::testing

#endif
