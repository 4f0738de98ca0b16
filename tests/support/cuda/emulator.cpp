#include "tests/support/cuda/emulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "tests/support/cuda/launch_dump.h"
#include "tests/support/cuda/queues.h"
#include "tests/support/cuda/source_line.h"
#include "tests/support/cuda/state.h"

namespace caption::cuda_emulator {
namespace {

const char* kind_name(AccessKind kind) {
  switch (kind) {
    case AccessKind::kLoadShared: return "load of shared memory";
    case AccessKind::kStoreShared: return "store to shared memory";
    case AccessKind::kLoadGlobal: return "load of global memory";
    case AccessKind::kStoreGlobal: return "store to global memory";
  }
  return "?";
}

const char* unit_name(AccessKind kind) {
  const bool is_global = kind == AccessKind::kLoadGlobal || kind == AccessKind::kStoreGlobal;
  return is_global ? "sectors" : "wavefronts";
}

Region& find_copied(const std::byte* begin, std::size_t size_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  Region* const region = memory().find(address);
  CAPTION_CHECK(
      region != nullptr && region->offset_of(address) + size_bytes <= region->size_bytes(),
      "the emulated GPU has no such memory");
  return *region;
}

std::unique_ptr<Emulation>& lasting_emulation() {
  static std::unique_ptr<Emulation> emulation;
  return emulation;
}

void begin_lasting_emulation() {
  const char* const seed = std::getenv("CAPTION_EMULATOR_SEED");
  const std::uint64_t number = seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10);
  lasting_emulation() = std::make_unique<Emulation>(Options{.seed = number});
  seed_queues(number);
}

thread_local bool begins_early = false;

}  // namespace

EarlyLaunches::EarlyLaunches() { begins_early = true; }
EarlyLaunches::~EarlyLaunches() { begins_early = false; }

DeviceMemory& memory() {
  static DeviceMemory memory;
  return memory;
}

State*& current_state() {
  static State* state = nullptr;
  return state;
}

Emulation::Emulation(const Options& options) {
  CAPTION_CHECK(current_state() == nullptr, "two emulations at a time");
  current_state() = new State(options);
}

Emulation::~Emulation() {
  delete current_state();
  current_state() = nullptr;
}

Report Emulation::report() const {
  Report report = current_state()->report;
  report.costs = current_state()->costs.instructions();
  report.has_costs = current_state()->options.counts_costs;
  return report;
}

std::string Report::describe_faults() const {
  std::string text;
  for (const FaultFound& found : faults) text += found.text + "\n";
  return text;
}

std::string Report::describe_waste(double most) const {
  CAPTION_CHECK(has_costs, "the costs of accesses were not counted");
  std::string text;
  for (const InstructionCost& cost : costs) {
    const auto units = static_cast<double>(cost.units);
    if (units <= most * static_cast<double>(cost.least_units)) continue;
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, ": %.2f %s per request, at least %.2f; %s of %d bytes\n",
                  units / static_cast<double>(cost.requests), unit_name(cost.kind),
                  static_cast<double>(cost.least_units) / static_cast<double>(cost.requests),
                  kind_name(cost.kind), cost.size_bytes);
    text += source_line(cost.pc) + numbers;
  }
  return text;
}

std::byte* allocate(std::size_t size_bytes) {
  return memory().allocate(size_bytes, current_device());
}

void free(std::byte* begin) { memory().free(begin); }

void copy_to_device(std::byte* to, const void* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  Region& region = find_copied(to, size_bytes);
  std::memcpy(to, from, size_bytes);
  region.initialise({reinterpret_cast<std::uintptr_t>(to), size_bytes});
}

void copy_from_device(void* to, const std::byte* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  const Region& region = find_copied(from, size_bytes);
  const std::size_t unwritten =
      region.first_uninitialised({reinterpret_cast<std::uintptr_t>(from), size_bytes});
  CAPTION_CHECK(unwritten == region.size_bytes(),
                "byte " + std::to_string(unwritten) + " of an allocation of " +
                    std::to_string(region.size_bytes()) + " was never written");
  std::memcpy(to, from, size_bytes);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  const auto is_on_device = [](const std::byte* address) {
    return memory().covers(reinterpret_cast<std::uintptr_t>(address));
  };
  const Region* const source = is_on_device(from) ? &find_copied(from, size_bytes) : nullptr;
  if (is_on_device(to)) {
    Region& target = find_copied(to, size_bytes);
    const Range range{reinterpret_cast<std::uintptr_t>(to), size_bytes};
    if (source == nullptr) {
      target.initialise(range);
    } else {
      target.initialise_as(range, *source, reinterpret_cast<std::uintptr_t>(from));
    }
  }
  std::memcpy(to, from, size_bytes);
}

void launch(void* queue, const Launch& launched) {
  Launch placed = launched;
  placed.device = current_device();
  placed.begins_early = begins_early;
  if (queue == nullptr) return launch(placed);
  CAPTION_CHECK(device_of(queue) == placed.device,
                "a kernel is launched on a queue of another GPU than the thread's current one");
  const auto* const params = static_cast<const std::byte*>(launched.params);
  const std::vector<std::byte> copied(params, params + launched.params_bytes);
  enqueue(queue, [work = placed, copied]() mutable {
    if (current_state() == nullptr) begin_lasting_emulation();
    work.params = copied.data();
    launch(work);
  });
}

std::string faults_of_lasting_emulation() {
  if (lasting_emulation() == nullptr || current_state()->report.faults.empty()) return {};
  return current_state()->report.describe_faults();
}

void launch(const Launch& launch) {
  CAPTION_CHECK(current_state() != nullptr, "a kernel is launched without an Emulation");
  State& state = *current_state();
  const std::size_t faults = state.report.faults.size();
  const LaunchDump dump(launch, state.options.sums);
  run_launch(state, launch);
  if (state.report.faults.size() == faults) dump.write();
}

}  // namespace caption::cuda_emulator
