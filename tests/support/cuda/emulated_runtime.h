// tests/support/cuda/emulated_runtime.h: the runtime of backend/device_runtime.h on the emulated
// GPU, for executables that link it (scripts/cmake/CaptionModule.cmake,
// caption_test_on_emulated_cuda).
//
// A fault that a lasting emulation finds (emulator.h) is thrown as Error(kInternal) from the next
// synchronisation, and from all after it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caption::cuda_emulator {

// What the emulated GPU has; initially 8 GiB.
void set_memory_bytes(std::int64_t size_bytes);
std::int64_t allocated_bytes();

// The GPU is lost at the call number `calls` of the runtime from now on, counted from 0 over those
// that may throw, and at each later one: they throw Error(kUnavailable). A negative number ends
// that.
void lose_device_at(std::int64_t calls);
// Calls that may throw since the last lose_device_at().
std::int64_t count_calls();

}  // namespace caption::cuda_emulator
