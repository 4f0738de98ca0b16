// tests/support/cuda/access_cost.h: what the accesses of a warp cost the memory system.
//
// An instruction of a warp that accesses global memory moves the 32-byte sectors that its lanes
// touch. One that accesses shared memory takes wavefronts, each of which serves 32 banks of 4
// bytes: lanes with up to 4 bytes go together, with 8 bytes in two halves of the warp, with 16 in
// four quarters; lanes at one word are served together, different words of a bank in turn. Source:
// CUDA C++ Programming Guide, "Device Memory Accesses" and "Shared Memory"; Nsight Compute's l1tex
// metrics have these names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace caption::cuda_emulator {

enum class AccessKind : std::uint8_t { kLoadShared, kStoreShared, kLoadGlobal, kStoreGlobal };

struct Access {
  std::uintptr_t pc = 0;  // in the instruction's code, as a return address has it
  std::uintptr_t address = 0;
  std::uint16_t size_bytes = 0;
  AccessKind kind = AccessKind::kLoadGlobal;
};

// Sums over the executions of one instruction of the compiled kernel, of one kind.
struct InstructionCost {
  std::uintptr_t pc = 0;
  AccessKind kind = AccessKind::kLoadGlobal;
  int size_bytes = 0;  // per lane
  std::int64_t requests = 0;
  std::int64_t lanes = 0;
  // Sectors of global memory or wavefronts of shared memory, and the fewest that the same number
  // of distinct bytes needs.
  std::int64_t units = 0;
  std::int64_t least_units = 0;
};

class AccessCosts {
 public:
  // Counts one instruction, executed by at most 32 lanes.
  void count(std::span<const Access> lanes);
  // Counts what the lanes of a warp did one after another: accesses of different lanes at the same
  // pc are one instruction. Where lanes differ, those at the lowest pc go first, as on a GPU, so
  // that lanes which leave a loop early wait behind it.
  void count_warp(std::span<std::vector<Access>* const> lanes);

  std::vector<InstructionCost> instructions() const;
  void clear() { costs_.clear(); }

 private:
  std::map<std::pair<std::uintptr_t, AccessKind>, InstructionCost> costs_;
};

}  // namespace caption::cuda_emulator
