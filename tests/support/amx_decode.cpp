#include <cstring>

#include "tests/support/amx_instructions.h"

namespace caption::testing {
namespace {

// VEX.pp
enum Prefix { kNoPrefix = 0, k66 = 1, kF3 = 2, kF2 = 3 };

constexpr unsigned bits(unsigned value, int first, int count) {
  return value >> first & ((1U << count) - 1);
}

// What follows C4: the fields of VEX, the opcode and ModRM, extended to four bits.
struct Fields {
  Prefix prefix;
  int vvvv, reg, rm, mod;
  unsigned opcode;
  int extend_index, extend_base;  // 8 or 0
};

std::optional<Fields> read_fields(const std::uint8_t* code) {
  constexpr unsigned kThreeByteVex = 0xC4;
  constexpr unsigned kMap0F38 = 2;
  if (code[0] != kThreeByteVex || bits(code[1], 0, 5) != kMap0F38) return std::nullopt;
  // W0, 128 bits.
  if (bits(code[2], 7, 1) != 0 || bits(code[2], 2, 1) != 0) return std::nullopt;
  const unsigned opcode = code[3];
  if (opcode != 0x49 && opcode != 0x4B && opcode != 0x5C && opcode != 0x5E) return std::nullopt;
  const unsigned modrm = code[4];
  // R, X, B and vvvv are stored inverted.
  const int extend_reg = bits(code[1], 7, 1) != 0 ? 0 : 8;
  const int extend_base = bits(code[1], 5, 1) != 0 ? 0 : 8;
  return Fields{.prefix = static_cast<Prefix>(bits(code[2], 0, 2)),
                .vvvv = static_cast<int>(15 - bits(code[2], 3, 4)),
                .reg = static_cast<int>(bits(modrm, 3, 3)) + extend_reg,
                .rm = static_cast<int>(bits(modrm, 0, 3)) + extend_base,
                .mod = static_cast<int>(bits(modrm, 6, 2)),
                .opcode = opcode,
                .extend_index = bits(code[1], 6, 1) != 0 ? 0 : 8,
                .extend_base = extend_base};
}

// Sets the memory operand and the length.
void read_operand(const std::uint8_t* code, const Fields& fields, AmxInstruction& to) {
  constexpr int kSib = 4;     // rm, and "no index"
  constexpr int kNoBase = 5;  // no base if mod is 0
  const std::uint8_t* next = code + 5;
  int base = fields.rm % 8;
  if (base == kSib) {
    to.has_sib = true;
    to.scale = static_cast<int>(bits(*next, 6, 2));
    const int index = static_cast<int>(bits(*next, 3, 3)) + fields.extend_index;
    if (index != kSib) to.index = index;
    base = static_cast<int>(bits(*next, 0, 3));
    ++next;
  }
  int displacement_bytes = fields.mod == 1 ? 1 : (fields.mod == 2 ? 4 : 0);
  if (fields.mod == 0 && base == kNoBase) {
    displacement_bytes = 4;
    to.base = to.has_sib ? AmxInstruction::kNone : AmxInstruction::kInstructionPointer;
  } else {
    to.base = base + fields.extend_base;
  }
  if (displacement_bytes == 1) {
    to.displacement = static_cast<std::int8_t>(*next);
  } else if (displacement_bytes == 4) {
    std::int32_t displacement;
    std::memcpy(&displacement, next, sizeof displacement);
    to.displacement = displacement;
  }
  to.length_bytes = static_cast<int>(next - code) + displacement_bytes;
}

std::optional<AmxOperation> operation_of(const Fields& f) {
  const bool is_memory = f.mod != 3;
  switch (f.opcode) {
    case 0x49:
      if (f.prefix == kNoPrefix && is_memory && f.reg == 0) return AmxOperation::kLoadConfig;
      if (f.prefix == kNoPrefix && !is_memory && f.reg == 0 && f.rm == 0) {
        return AmxOperation::kRelease;
      }
      if (f.prefix == kF2 && !is_memory && f.rm == 0) return AmxOperation::kZero;
      return std::nullopt;
    case 0x4B:
      if (!is_memory || f.prefix == kNoPrefix) return std::nullopt;
      return f.prefix == kF3 ? AmxOperation::kStore : AmxOperation::kLoad;
    case 0x5C:
      if (is_memory || f.prefix != kF3) return std::nullopt;
      return AmxOperation::kDotBF16;
    default:
      if (is_memory) return std::nullopt;
      switch (f.prefix) {
        case kNoPrefix: return AmxOperation::kDotUnsignedUnsigned;
        case k66: return AmxOperation::kDotUnsignedSigned;
        case kF3: return AmxOperation::kDotSignedUnsigned;
        case kF2: return AmxOperation::kDotSignedSigned;
      }
      return std::nullopt;
  }
}

}  // namespace

std::optional<AmxInstruction> decode_amx(const std::uint8_t* code) {
  const std::optional<Fields> fields = read_fields(code);
  if (!fields) return std::nullopt;
  const std::optional<AmxOperation> operation = operation_of(*fields);
  if (!operation) return std::nullopt;
  AmxInstruction instruction{.operation = *operation, .length_bytes = 5};
  const bool is_product = fields->opcode == 0x5C || fields->opcode == 0x5E;
  if (!is_product && fields->vvvv != 0) return std::nullopt;
  instruction.tile = fields->reg;
  if (is_product) {
    instruction.source1 = fields->rm;
    instruction.source2 = fields->vvvv;
  } else if (fields->mod != 3) {
    read_operand(code, *fields, instruction);
  }
  return instruction;
}

}  // namespace caption::testing
