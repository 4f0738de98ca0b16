// Launches, blocks and the meetings of their threads.
#include "tests/support/cuda/running_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <span>

#include "tests/support/cuda/source_line.h"
#include "tests/support/cuda/state.h"

namespace caption::cuda_emulator {

thread_local constinit State* running_state = nullptr;
thread_local constinit const std::byte* unwatched_stack = nullptr;

namespace {

constexpr std::size_t kMostFaults = 32;
constexpr std::size_t kSharedAlignmentBytes = 1024;
// Drivers before CUDA 12.1 take no more (CUDA C++ Programming Guide, "Function Parameters").
constexpr std::size_t kMostParamsBytes = 4096;

State& state() { return *running_state; }

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string thread_name(int thread) { return "thread " + std::to_string(thread); }

std::string place_name(const Place& place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

// Gives the launch up: the running thread never continues.
[[noreturn]] void end_launch() {
  state().is_ended = true;
  for (;;) state().running->fiber.suspend();
}

// What a fiber does first: the kernel's thread, then its end.
void run_thread() {
  State& s = state();
  s.launch->run(s.params.data());
  Thread& self = *s.running;
  const bool has_copies =
      !self.open_copies.empty() ||
      std::any_of(self.copy_groups.begin(), self.copy_groups.end(),
                  [](const std::vector<Copy>& group) { return !group.empty(); });
  if (has_copies) {
    s.add_fault(Fault::kUnwaitedCopy, 0,
                thread_name(s.running_index) + " returns and has not waited for its copies");
  }
  if (!s.warp().open_products.empty() || !s.warp().product_groups.empty()) {
    s.add_fault(Fault::kUnwaitedProduct, 0,
                thread_name(s.running_index) + " returns and has not waited for its products");
  }
  if (s.launch->begins_early && !self.has_waited) {
    s.add_fault(Fault::kBeforeWait, 0,
                thread_name(s.running_index) + " returns and has not waited for earlier launches");
  }
  self.state = ThreadState::kReturned;
  ++s.num_returned;
  if (++s.warp().num_returned == kLanes) count_accesses(s, s.running_index / kLanes);
  for (;;) self.fiber.suspend();
}

void begin_phase(State& s) {
  s.phase = ++s.last_phase;
  s.ordered.insert(s.ordered.end(), s.arrived_before.begin(), s.arrived_before.end());
  s.arrived_before.clear();
  for (Warp& warp : s.warps) warp.epoch = ++s.last_epoch;
}

void begin_block(State& s) {
  s.warps.assign(s.threads.size() / kLanes, {});
  s.warpgroups.assign((s.threads.size() + kWarpgroupThreads - 1) / kWarpgroupThreads, {});
  s.shared_writes.assign(s.shared->size_bytes() / sizeof(kernels::cuda::Bytes16) + 1, {});
  s.write_clock = 0;
  s.barrier = {};
  s.num_returned = 0;
  s.ordered.clear();
  s.arrived_before.clear();
  begin_phase(s);
  s.first_phase_of_block = s.phase;
  if (s.shared->size_bytes() > 0) {
    std::memset(s.shared->begin(), 0xFF, s.shared->size_bytes());
    s.shared->forget();
  }
  for (const auto& thread : s.threads) {
    thread->state = ThreadState::kReady;
    thread->has_waited = false;
    thread->accesses.clear();
    thread->open_copies.clear();
    thread->copy_groups.clear();
    thread->has_begun_products = false;
    thread->touched.clear();
    thread->shown_clock = 0;
    thread->fiber.start(run_thread);
  }
}

// All threads have arrived at the barrier: they go on.
void open_barrier(State& s) {
  for (std::size_t w = 0; w < s.warps.size(); ++w) count_accesses(s, static_cast<int>(w));
  ++s.report.barriers;
  s.barrier = {};
  begin_phase(s);
  for (const auto& thread : s.threads) {
    if (thread->state == ThreadState::kAtBlockMeeting) thread->state = ThreadState::kReady;
  }
}

// Nobody can go on: says who waits where.
void add_deadlock(State& s) {
  std::string text;
  std::string last;
  for (std::size_t i = 0; i < s.threads.size(); ++i) {
    const Thread& thread = *s.threads[i];
    const std::string at =
        thread.state == ThreadState::kReturned
            ? "has returned"
            : std::string("waits at ") + thread.operation + " in " + place_name(thread.place);
    if (at != last)
      text += (text.empty() ? "" : "; ") + thread_name(static_cast<int>(i)) + " " + at;
    last = at;
  }
  s.add_fault(Fault::kDivergence, 0, text + " (and the threads after each likewise)");
  s.is_ended = true;
}

void run_block(State& s, std::span<const int> order) {
  begin_block(s);
  ++s.report.blocks;
  const auto num_threads = static_cast<int>(s.threads.size());
  while (s.num_returned < num_threads && !s.is_ended) {
    bool has_run = false;
    for (const int i : order) {
      Thread& thread = *s.threads[static_cast<std::size_t>(i)];
      if (thread.state != ThreadState::kReady) continue;
      has_run = true;
      s.running = &thread;
      s.running_index = i;
      running_state = &s;
      unwatched_stack = thread.has_begun_products ? nullptr : thread.fiber.stack();
      thread.fiber.resume();
      running_state = nullptr;
      unwatched_stack = nullptr;
      if (s.is_ended) return;
    }
    if (s.barrier.arrived == num_threads) {
      open_barrier(s);
    } else if (!has_run) {
      add_deadlock(s);
    }
  }
}

// Maps a block's shared memory for the launch: as large as the kernel asks, with nothing behind it.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t size_bytes)
      : mapped_bytes_((size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes + 2 * kPageBytes) {
    mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const std::size_t used_bytes = mapped_bytes_ - 2 * kPageBytes;
    pages_ = static_cast<std::byte*>(mapped_) + kPageBytes;
    ::mprotect(pages_, used_bytes, PROT_READ | PROT_WRITE);
    begin_ = pages_ + (used_bytes - size_bytes) / kSharedAlignmentBytes * kSharedAlignmentBytes;
  }
  ~SharedMemory() { ::munmap(mapped_, mapped_bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* begin() const { return begin_; }

 private:
  static constexpr std::size_t kPageBytes = std::size_t{64} << 10;
  std::size_t mapped_bytes_;
  void* mapped_ = nullptr;
  std::byte* pages_ = nullptr;
  std::byte* begin_ = nullptr;
};

// Numbers from 0, in an order that the seed decides.
std::vector<int> order_of(State& s, std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (s.options.seed != 0) std::shuffle(order.begin(), order.end(), s.random);
  return order;
}

bool check_launch(State& s, const Launch& launch) {
  const bool is_grid =
      launch.grid.x <= 0x7FFFFFFF && launch.grid.y <= 65535 && launch.grid.z <= 65535;
  const bool is_block = launch.num_threads % kLanes == 0 && launch.num_threads <= 1024;
  const bool fits =
      launch.shared_bytes <= s.options.most_shared_bytes && launch.params_bytes <= kMostParamsBytes;
  if (is_grid && is_block && fits) return true;
  s.add_fault(Fault::kLaunch, 0,
              std::to_string(launch.grid.x) + " x " + std::to_string(launch.grid.y) + " x " +
                  std::to_string(launch.grid.z) + " blocks of " +
                  std::to_string(launch.num_threads) + " threads and " +
                  std::to_string(launch.shared_bytes) +
                  " bytes of shared memory, of which a block "
                  "has at most " +
                  std::to_string(s.options.most_shared_bytes) + ", with " +
                  std::to_string(launch.params_bytes) + " bytes of parameters, of at most " +
                  std::to_string(kMostParamsBytes));
  return false;
}

// The running thread arrives. Ends the launch if others have arrived for another operation.
void meet(Meeting& meeting, const char* operation, const Place& place) {
  State& s = state();
  s.running->operation = operation;
  s.running->place = place;
  if (meeting.arrived++ == 0) {
    meeting.operation = operation;
    meeting.place = place;
    return;
  }
  if (meeting.operation == operation && meeting.place.line == place.line) return;
  s.add_fault(Fault::kDivergence, address_of(place.pc),
              thread_name(s.running_index) + " is at " + operation + " in " + place_name(place) +
                  ", others are at " + std::string(meeting.operation) + " in " +
                  place_name(meeting.place));
  end_launch();
}

}  // namespace

void State::add_fault(Fault fault, std::uintptr_t pc, const std::string& text) {
  if (report.faults.size() >= kMostFaults || !seen.emplace(fault, pc).second) return;
  report.faults.push_back({fault, std::string(fault_name(fault)) + ": " + text +
                                      (pc == 0 ? "" : " (" + source_line(pc) + ")")});
}

void run_launch(State& s, const Launch& launch) {
  ++s.report.launches;
  if (!check_launch(s, launch)) return;
  const auto* const params = static_cast<const std::byte*>(launch.params);
  s.params.assign(params, params + launch.params_bytes);
  s.launch = &launch;
  s.is_ended = false;
  s.arrivals.clear();
  s.first_phase_of_launch = s.last_phase + 1;
  const auto num_threads = static_cast<std::size_t>(launch.num_threads);
  while (s.threads.size() > num_threads) s.threads.pop_back();
  while (s.threads.size() < num_threads) {
    s.threads.push_back(std::make_unique<Thread>(static_cast<int>(s.threads.size())));
  }
  const SharedMemory shared(launch.shared_bytes);
  s.shared = std::make_unique<Region>(shared.begin(), launch.shared_bytes);
  const std::size_t num_blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const std::vector<int> blocks = order_of(s, num_blocks);
  const std::vector<int> threads = order_of(s, num_threads);
  const auto x = static_cast<int>(launch.grid.x);
  const auto y = static_cast<int>(launch.grid.y);
  for (const int block : blocks) {
    s.block = {block % x, block / x % y, block / x / y};
    run_block(s, threads);
    if (s.is_ended) break;
  }
  s.shared = nullptr;
  s.launch = nullptr;
}

void count_accesses(State& s, int warp) {
  if (!s.options.counts_costs) return;
  std::array<std::vector<Access>*, kLanes> lanes;
  for (int i = 0; i < kLanes; ++i) {
    lanes[static_cast<std::size_t>(i)] =
        &s.threads[static_cast<std::size_t>(warp * kLanes + i)]->accesses;
  }
  s.costs.count_warp(lanes);
}

int thread_of_block() { return state().running_index; }
Index3 block_of_grid() { return state().block; }
Index3 extent_of_grid() {
  const Extent grid = state().launch->grid;
  return {static_cast<int>(grid.x), static_cast<int>(grid.y), static_cast<int>(grid.z)};
}
std::byte* shared_memory_begin() { return state().shared->begin(); }
TensorCoreSums tensor_core_sums() { return state().options.sums; }
void count_matrix_product() { ++state().report.matrix_products; }

void meet_block(const Place& place) {
  State& s = state();
  meet(s.barrier, "sync_block", place);
  s.running->state = ThreadState::kAtBlockMeeting;
  s.running->fiber.suspend();
}

void meet_warp(const char* operation, const Place& place, void* argument,
               void (*act)(void* const* arguments)) {
  State& s = state();
  Warp& warp = s.warp();
  meet(warp.meeting, operation, place);
  warp.arguments[static_cast<std::size_t>(s.running_index % kLanes)] = argument;
  if (warp.meeting.arrived < kLanes) {
    s.running->state = ThreadState::kAtWarpMeeting;
    s.running->fiber.suspend();
    return;
  }
  warp.meeting = {};
  act(warp.arguments.data());
  const int number = s.running_index / kLanes;
  count_accesses(s, number);
  for (int i = 0; i < kLanes; ++i) {
    s.threads[static_cast<std::size_t>(number * kLanes + i)]->state = ThreadState::kReady;
  }
}

void meet_warpgroup(const char* operation, const Place& place, void* argument,
                    void (*act)(void* const* arguments)) {
  State& s = state();
  const int number = s.running_index / kWarpgroupThreads;
  Warpgroup& group = s.warpgroups[static_cast<std::size_t>(number)];
  meet(group.meeting, operation, place);
  group.arguments[static_cast<std::size_t>(s.running_index % kWarpgroupThreads)] = argument;
  if (group.meeting.arrived < kWarpgroupThreads) {
    s.running->state = ThreadState::kAtWarpgroupMeeting;
    s.running->fiber.suspend();
    return;
  }
  group.meeting = {};
  act(group.arguments.data());
  for (int i = 0; i < kWarpgroupThreads; ++i) {
    s.threads[static_cast<std::size_t>(number * kWarpgroupThreads + i)]->state =
        ThreadState::kReady;
  }
}

void wait_for_launches(const Place& place) {
  State& s = state();
  if (s.launch->begins_early && s.running->has_waited) {
    s.add_fault(Fault::kBeforeWait, address_of(place.pc),
                thread_name(s.running_index) + " waits for earlier launches a second time");
  }
  s.running->has_waited = true;
}

void arrive_block(const void* counter) {
  State& s = state();
  std::vector<Phases>& arrivals = s.arrivals[counter];
  s.arrived_before.insert(s.arrived_before.end(), arrivals.begin(), arrivals.end());
  arrivals.push_back({s.first_phase_of_block, s.phase});
}

void begin_warp_epoch() { state().warp().epoch = ++state().last_epoch; }

}  // namespace caption::cuda_emulator
