// What the AMX emulator refuses and which instructions it does not handle; its results are tested
// in amx_instructions_test.cpp.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/amx_instructions.h"

#if defined(__x86_64__)

using namespace caption::testing;

namespace {

const char* execute(AmxOperation operation, AmxState& state, AmxInstruction operands) {
  operands.operation = operation;
  return execute_amx(operands, Registers{}, 0, state);
}

// Returns the error of ldtilecfg; "" if it succeeds.
std::string load(const AmxConfig& config, AmxState& state) {
  AmxInstruction instruction{.operation = AmxOperation::kLoadConfig, .length_bytes = 5};
  instruction.base = 0;
  Registers registers{};
  registers[0] = reinterpret_cast<std::uint64_t>(&config);
  const char* const error = execute_amx(instruction, registers, 0, state);
  return error == nullptr ? "" : error;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/amx_emulator");

TEST_CASE("the emulator refuses what the SDM says is a fault, and changes nothing") {
  const auto with = [](int at, int value) {
    AmxConfig config;
    config.bytes[at] = static_cast<std::uint8_t>(value);
    return config;
  };
  AmxState state;
  REQUIRE(load(AmxConfig().set(0, 3, 8).set(1, 3, 12).set(2, 3, 8).set(3, 4, 8).set(4, 2, 6), state)
              .empty());
  CHECK(load(with(0, 2), state).starts_with("#GP"));
  for (const int reserved : {2, 15, 32, 47, 56, 63}) {
    CHECK(load(with(reserved, 1), state).starts_with("#GP"));
  }
  CHECK(load(AmxConfig().set(7, 17, 64), state).starts_with("#GP"));
  CHECK(load(AmxConfig().set(7, 16, 65), state).starts_with("#GP"));
  CHECK(load(AmxConfig().set(7, 1, 0), state).starts_with("#GP"));
  CHECK(load(AmxConfig().set(7, 0, 4), state).starts_with("#GP"));
  CHECK(state.tiles[1].row_bytes == 12);

  const auto product = [&](int c, int a, int b) {
    return execute(AmxOperation::kDotBF16, state,
                   {.operation = {}, .length_bytes = 5, .tile = c, .source1 = a, .source2 = b});
  };
  CHECK(product(0, 1, 2) == nullptr);
  CHECK(product(0, 1, 3) != nullptr);  // depths differ
  CHECK(product(3, 1, 2) != nullptr);  // rows differ
  CHECK(product(1, 0, 2) != nullptr);  // columns differ
  CHECK(product(0, 0, 2) != nullptr);  // the same tile twice
  CHECK(product(0, 1, 4) != nullptr);  // depth is no multiple of a word
  CHECK(product(0, 1, 5) != nullptr);  // tile not configured
  CHECK(product(0, 1, 9) != nullptr);  // no such tile
  const AmxInstruction at_tile_0{.operation = {}, .length_bytes = 5, .tile = 0};
  CHECK(execute(AmxOperation::kLoad, state, at_tile_0) != nullptr);  // without a SIB byte
  CHECK(execute(AmxOperation::kZero, state, at_tile_0) == nullptr);
  REQUIRE(load(with(0, 0), state).empty());
  CHECK(execute(AmxOperation::kZero, state, at_tile_0) != nullptr);
}

TEST_CASE("what is not an AMX instruction is not decoded") {
  const std::uint8_t ldtilecfg[] = {0xC4, 0xE2, 0x78, 0x49, 0x00};
  CHECK(decode_amx(ldtilecfg)->operation == AmxOperation::kLoadConfig);
  const std::uint8_t others[][5] = {{0x0F, 0x0B, 0, 0, 0},            // ud2
                                    {0xC4, 0xE1, 0x78, 0x49, 0x00},   // another map
                                    {0xC4, 0xE2, 0xF8, 0x49, 0x00},   // W1
                                    {0xC4, 0xE2, 0x7C, 0x49, 0x00},   // 256 bits
                                    {0xC4, 0xE2, 0x70, 0x49, 0x00},   // vvvv
                                    {0xC4, 0xE2, 0x79, 0x49, 0x00},   // sttilecfg
                                    {0xC4, 0xE2, 0x63, 0x5C, 0xC1},   // tdpfp16ps
                                    {0xC4, 0xE2, 0x78, 0x4B, 0x04}};  // no prefix
  for (const auto& code : others) CHECK_FALSE(decode_amx(code).has_value());
}

TEST_SUITE_END();

#endif
