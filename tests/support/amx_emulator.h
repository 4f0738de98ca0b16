// tests/support/amx_emulator.h: AMX's instructions on machines that lack them, for tests.
#pragma once

namespace caption::testing {

// While one lives, an AMX instruction (amx_instructions.h) that this CPU refuses with SIGILL is
// executed on tiles of the thread's own, in any thread. What the SDM answers with an exception
// aborts, and says which; other instructions go to the handler there was before. A bad address is
// a fault within the handler, which AddressSanitizer reports as it does any.
//
// x86-64 Linux. One at a time: constructed and destroyed while no other thread runs a tile.
class AmxEmulator {
 public:
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;
};

}  // namespace caption::testing
