// tests/support/cuda/running_block.h: the block that the emulator runs, for the functions that its
// threads call (device_functions.cpp) and their accesses (instrumentation.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/emulator.h"
#include "tests/support/cuda/fiber.h"

namespace caption::cuda_emulator {

inline constexpr int kLanes = 32;
inline constexpr int kWarpgroupThreads = 4 * kLanes;

struct State;

// The emulation whose kernel this thread of the host runs, while one of the kernel's threads runs;
// null otherwise. The host's part of a kernel's source is instrumented, too, and another thread may
// be in it meanwhile.
extern thread_local constinit State* running_state;

// The stack of the running thread of a kernel, of Fiber::kStackBytes, as long as no product under
// way uses it as registers: no access of it can be wrong. Null otherwise.
extern thread_local constinit const std::byte* unwatched_stack;

inline bool is_on_unwatched_stack(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) -
             reinterpret_cast<std::uintptr_t>(unwatched_stack) <
         Fiber::kStackBytes;
}

// Whether a thread of a kernel runs now. Everything below needs that.
inline bool is_running() { return running_state != nullptr; }

struct Index3 {
  int x = 0;
  int y = 0;
  int z = 0;
};
int thread_of_block();
Index3 block_of_grid();
Index3 extent_of_grid();
std::byte* shared_memory_begin();
TensorCoreSums tensor_core_sums();
void count_matrix_product();

// A place of the source: `pc` for messages, `line` to tell whether lanes are at the same place.
struct Place {
  const void* pc = nullptr;
  const char* file = "";
  unsigned line = 0;
};

// Waits for all threads of the block.
void meet_block(const Place& place);
// Waits for the other lanes of the warp at the same operation and place. The last lane calls
// act(arguments of the 32 lanes).
void meet_warp(const char* operation, const Place& place, void* argument,
               void (*act)(void* const* arguments));
// The same of a warpgroup, of 128 threads of which the first is a multiple of 128.
void meet_warpgroup(const char* operation, const Place& place, void* argument,
                    void (*act)(void* const* arguments));
// Orders the accesses of the running warp: its later ones are in a new epoch. Within `act`.
void begin_warp_epoch();

// The running block is ordered after the blocks that have arrived at the counter, from its next
// barrier on, and later ones after what it did before its last barrier.
void arrive_block(const void* counter);

// Checks an access, counts it and remembers it. Ends the launch if the memory is not there.
void access(const void* pc, const void* address, std::size_t size_bytes, Direction direction);

// The running thread has waited for the launches before this one.
void wait_for_launches(const Place& place);

void begin_copy_16(const void* pc, void* to, const void* from, bool is_inside);
void commit_copy_group();
void wait_copy_groups(std::size_t groups_left);

}  // namespace caption::cuda_emulator
