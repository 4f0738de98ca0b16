// tests/support/cuda/state.h: what the emulator's own files share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/primitives.cuh"
#include "tests/support/cuda/emulator.h"
#include "tests/support/cuda/fiber.h"
#include "tests/support/cuda/running_block.h"

namespace caption::cuda_emulator {

enum class ThreadState : std::uint8_t {
  kReady,
  kAtWarpMeeting,
  kAtWarpgroupMeeting,
  kAtBlockMeeting,
  kReturned
};

struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: zeros
  Region* region = nullptr;         // the region of `to`
  bool is_done = false;
};

// A product of a warpgroup (kernels/cuda/warpgroup.cuh), of one of its warps.
struct Product {
  std::array<const std::byte*, kLanes> a{};  // fragments of lanes
  std::array<std::byte*, kLanes> c{};
  const std::byte* rows = nullptr;  // first row of x, in shared memory
  int step = 0;
  Place place;
  bool is_done = false;
};

// The last write of 16 bytes of shared memory. Clocks count the block's writes.
struct SharedWrite {
  int thread = -1;  // -1: there was none
  std::uint32_t clock = 0;
};

struct Thread {
  explicit Thread(int number) : fiber(number) {}

  Fiber fiber;
  ThreadState state = ThreadState::kReady;
  const char* operation = "";  // what it waits for
  Place place;
  bool has_waited = false;       // whether it has waited for the launches before
  std::vector<Access> accesses;  // those since the warp met last
  std::vector<Copy> open_copies;
  std::vector<std::vector<Copy>> copy_groups;  // committed, oldest first
  bool has_begun_products = false;
  std::vector<Range> touched;     // parts of its stack used since it began products last
  std::uint32_t shown_clock = 0;  // its writes of shared memory until then are shown to products
};

// Where the lanes of a warp, or the threads of a block, wait for each other.
struct Meeting {
  int arrived = 0;
  std::string_view operation;
  Place place;
};

struct Warp {
  Meeting meeting;
  std::array<void*, kLanes> arguments{};
  std::uint32_t epoch = 0;
  int num_returned = 0;
  std::vector<Product> open_products;
  std::vector<std::vector<Product>> product_groups;  // committed, oldest first
};

struct Warpgroup {
  Meeting meeting;
  std::array<void*, kWarpgroupThreads> arguments{};
};

struct State {
  explicit State(const Options& chosen) : options(chosen), random(chosen.seed) {}

  Options options;
  Report report;
  AccessCosts costs;
  std::mt19937_64 random;
  std::set<std::pair<Fault, std::uintptr_t>> seen;  // faults, by instruction

  // The launch.
  const Launch* launch = nullptr;
  std::vector<std::byte> params;  // a copy, which threads may read
  std::vector<std::unique_ptr<Thread>> threads;
  std::unique_ptr<Region> shared;
  // No later phase or epoch has this number: not of another emulation either, because memory keeps
  // what it remembers of accesses.
  static inline std::uint32_t last_phase = 0;
  static inline std::uint32_t last_epoch = 0;
  std::uint32_t first_phase_of_launch = 0;
  // The graph whose work runs begins with it; 0: no graph runs.
  static inline std::uint32_t first_phase_of_graph = 0;
  bool is_ended = false;  // whether a fault has ended the launch

  // The block.
  Index3 block;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::vector<SharedWrite> shared_writes;  // one for each 16 bytes
  std::uint32_t write_clock = 0;
  Meeting barrier;
  int num_returned = 0;
  std::uint32_t phase = 0;
  std::uint32_t first_phase_of_block = 0;
  std::map<const void*, std::vector<Phases>> arrivals;  // keyed by the counter of arrived blocks
  std::vector<Phases> arrived_before;  // the block is ordered after them from its next phase on
  std::vector<Phases> ordered;         // it is ordered after them
  Thread* running = nullptr;           // where running_state is set
  int running_index = 0;

  Moment now() const { return now_of(running_index); }
  Moment now_of(int thread) const {
    return {.thread = thread,
            .epoch = warps[static_cast<std::size_t>(thread / kLanes)].epoch,
            .phase = phase,
            .first_phase_of_block = first_phase_of_block,
            .first_phase_of_launch = first_phase_of_launch,
            .ordered = &ordered};
  }
  // The thread has written 16 bytes of shared memory, or some of them.
  void remember_shared_write(std::size_t offset, int thread) {
    shared_writes[offset / sizeof(kernels::cuda::Bytes16)] = {thread, ++write_clock};
  }
  Warp& warp() { return warps[static_cast<std::size_t>(running_index / kLanes)]; }
  void add_fault(Fault fault, std::uintptr_t pc, const std::string& text);
};

DeviceMemory& memory();
State*& current_state();
void run_launch(State& state, const Launch& launch);
// Checks an access of the running thread's stack, of which products under way use registers.
void check_registers(State& state, const void* pc, Range bytes, Direction direction);
// Counts the accesses of a warp's lanes since the last call.
void count_accesses(State& state, int warp);

}  // namespace caption::cuda_emulator
