// tests/support/cuda/emulated_runtime.h: the runtime of backend/device_runtime.h on emulated GPUs,
// for executables that link it (scripts/cmake/CaptionModule.cmake, caption_test_on_emulated_cuda).
//
// A fault that a lasting emulation finds (emulator.h) is thrown as Error(kInternal) from the next
// synchronisation, and from all after it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caption::cuda_emulator {

inline constexpr int kNumDevices = 4;

// What each emulated GPU has; initially 8 GiB.
void set_memory_bytes(std::int64_t size_bytes);
std::int64_t allocated_bytes();  // summed over the GPUs

// Allocations since the process began, of memory of a GPU and of pinned memory.
std::int64_t count_allocations();

// A GPU is lost at the call number `calls` of the runtime for it from now on, counted from 0 over
// those that may throw, and at each later one: they throw Error(kUnavailable). A negative number
// ends that. At first the variable CAPTION_EMULATOR_LOSES decides: "1:400" loses GPU 1 at its call
// 400. CAPTION_EMULATOR_LOSES_AFTER names a file: each GPU is lost once that has content.
void lose_device_at(std::int64_t calls, int device = 0);
// Calls for a GPU that may throw since the last lose_device_at() for it.
std::int64_t count_calls(int device = 0);

// An allocation of a GPU's memory is refused, and each later one, as if nothing were left; counted
// from 0 from now on. A negative number ends that. At first the variable CAPTION_EMULATOR_REFUSES
// decides: "1:40" refuses allocation 40 and later ones of GPU 1.
void refuse_allocations_from(std::int64_t allocation, int device = 0);
// Allocations of a GPU's memory since the last refuse_allocations_from() for it.
std::int64_t count_device_allocations(int device = 0);

// Calls since the process began in which the host waited for work of a GPU.
std::int64_t count_waits();

// From now on the GPUs refuse what was recorded, or take it again.
void refuse_graphs(bool are_refused);

}  // namespace caption::cuda_emulator
