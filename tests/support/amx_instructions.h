// tests/support/amx_instructions.h: AMX's instructions in plain loops, decoded from their bytes.
//
// After the Intel SDM: volume 1, chapter 18; volume 2, the instructions' operations and exception
// classes AMX-E1 to AMX-E6. Palette 1 alone. Prefixes before VEX (another segment, 32-bit
// addresses) and STTILECFG are not decoded: kernels/cpu/amx has none.
//
// Needs an x86-64 with FMA: its MXCSR has the denormals' rules of TDPBF16PS.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace caption::testing {

inline constexpr int kNumTiles = 8;
inline constexpr int kMaxTileRows = 16;
inline constexpr int kMaxTileRowBytes = 64;

// TILECFG and TILEDATA; as it is constructed, tiles are not configured.
struct AmxState {
  struct Tile {
    std::uint16_t row_bytes;  // 0 as rows: not in use
    std::uint8_t rows;
    alignas(64) unsigned char data[kMaxTileRows][kMaxTileRowBytes];
  };
  bool is_configured = false;
  std::uint8_t start_row = 0;
  Tile tiles[kNumTiles] = {};
};

// What LDTILECFG reads, of palette 1.
struct alignas(64) AmxConfig {
  std::uint8_t bytes[64] = {1};

  AmxConfig& set(int tile, int rows, int row_bytes) {
    bytes[16 + 2 * tile] = static_cast<std::uint8_t>(row_bytes);
    bytes[48 + tile] = static_cast<std::uint8_t>(rows);
    return *this;
  }
};

enum class AmxOperation {
  kLoadConfig,
  kRelease,
  kZero,
  kLoad,  // TILELOADD and TILELOADDT1
  kStore,
  kDotBF16,
  kDotSignedSigned,  // TDPBSSD: tile 1 is signed, tile 2 is signed
  kDotSignedUnsigned,
  kDotUnsignedSigned,
  kDotUnsignedUnsigned,
};

// Registers by their numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
using Registers = std::array<std::uint64_t, 16>;

struct AmxInstruction {
  static constexpr int kNone = -1;
  static constexpr int kInstructionPointer = 16;  // as base: the next instruction's address

  AmxOperation operation;
  int length_bytes;
  int tile = 0;  // loaded, stored, zeroed, added to
  int source1 = 0;
  int source2 = 0;
  bool has_sib = false;
  int base = kNone;
  int index = kNone;
  int scale = 0;  // shift
  std::int64_t displacement = 0;
};

// Reads the bytes of one instruction; nullopt where that is none of the above.
std::optional<AmxInstruction> decode_amx(const std::uint8_t* code);

// Null when it was executed; else the exception that the SDM names, and nothing was changed.
const char* execute_amx(const AmxInstruction& instruction, const Registers& registers,
                        std::uint64_t next_instruction, AmxState& state);

}  // namespace caption::testing
