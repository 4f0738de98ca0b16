// tests/support/cuda/source_line.h: the line of source that an address of this program's code was
// compiled from.
#pragma once

#include <cstdint>
#include <string>

namespace caption::cuda_emulator {

// "kernels/cuda/norm.cu:31", for the return address of a call: the line in the innermost inlined
// function that is not the emulator's own. Asks addr2line (binutils); returns the address itself
// where that does not know.
std::string source_line(std::uintptr_t return_address);

}  // namespace caption::cuda_emulator
