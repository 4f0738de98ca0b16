#include "tests/support/amx_emulator.h"

#if defined(__x86_64__) && defined(__linux__)

#include <ucontext.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tests/support/amx_instructions.h"

namespace caption::testing {
namespace {

constinit thread_local AmxState this_threads_tiles;
struct sigaction handler_before;  // while an emulator lives
bool is_installed = false;

Registers registers_of(const greg_t* values) {
  constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};
  Registers registers;
  for (std::size_t i = 0; i < registers.size(); ++i) {
    registers[i] = static_cast<std::uint64_t>(values[kPlaces[i]]);
  }
  return registers;
}

std::optional<AmxInstruction> decode(std::uint64_t address) {
  return decode_amx(reinterpret_cast<const std::uint8_t*>(address));
}

void execute_refused(int, siginfo_t*, void* context) {
  greg_t* const values = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto address = static_cast<std::uint64_t>(values[REG_RIP]);
  std::optional<AmxInstruction> instruction = decode(address);
  if (!instruction) {
    // The instruction is tried once more, now for whoever was asked before.
    ::sigaction(SIGILL, &handler_before, nullptr);
    return;
  }
  const Registers registers = registers_of(values);
  // The ones behind it, too: a signal costs more than they do.
  for (; instruction; instruction = decode(address)) {
    const std::uint64_t next = address + static_cast<std::uint64_t>(instruction->length_bytes);
    if (const char* const error = execute_amx(*instruction, registers, next, this_threads_tiles)) {
      std::fprintf(stderr, "AmxEmulator: %s, at %p\n", error, reinterpret_cast<void*>(address));
      std::abort();
    }
    address = next;
  }
  values[REG_RIP] = static_cast<greg_t>(address);
}

}  // namespace

AmxEmulator::AmxEmulator() {
  if (is_installed) {
    std::fprintf(stderr, "AmxEmulator: there is one already; one at a time\n");
    std::abort();
  }
  struct sigaction action = {};
  action.sa_sigaction = execute_refused;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGILL, &action, &handler_before);
  is_installed = true;
}

AmxEmulator::~AmxEmulator() {
  ::sigaction(SIGILL, &handler_before, nullptr);
  is_installed = false;
}

}  // namespace caption::testing

#else

namespace caption::testing {
AmxEmulator::AmxEmulator() = default;
AmxEmulator::~AmxEmulator() = default;
}  // namespace caption::testing

#endif
