// tests/support/cuda/emulator.h: runs CUDA kernels on the CPU, and says what is wrong with them.
//
//   Emulation emulation({.seed = 7});
//   kernels::rms_norm(stream, x, weight, eps, y);     // with operands in emulated memory
//   CHECK(emulation.report().faults.empty());
//
// Every thread of a block is a fiber; the blocks run one after another. What the lanes of a warp do
// together is done by the last of them that arrives. A kernel's source is compiled by g++ with
// -fsanitize=thread, whose calls before each access go to instrumentation.cpp instead of a race
// detector's library, so that accesses of plain C++ are seen as well as those of the primitives.
// Not emulated: PTX text, time, caches, accesses of one GPU to the memory of another.
//
// All functions are for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cuda/access_cost.h"
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/tensor_core.h"

namespace caption::cuda_emulator {

struct Options {
  // Decides the order of blocks and threads, and for each copy_16_async() whether its bytes move at
  // once or when they are waited for. With 0, orders ascend and bytes move late.
  std::uint64_t seed = 0;
  TensorCoreSums sums = TensorCoreSums::kAmpere;
  std::size_t most_shared_bytes = std::size_t{227} << 10;  // a block's limit on sm_90
  bool counts_costs =
      false;  // whether the report has the costs of accesses, which take time to count
};

struct FaultFound {
  Fault fault;
  // "race: thread 1 reads shared memory, byte 0 of 128; thread 0 wrote it, and nothing orders the
  // two (kernels/cuda/norm.cu:31)"
  std::string text;
};

struct Report {
  std::vector<FaultFound> faults;      // the first of each kind at each instruction, at most 32
  std::vector<InstructionCost> costs;  // those of Options::counts_costs
  bool has_costs = false;
  std::int64_t launches = 0;
  std::int64_t blocks = 0;
  std::int64_t barriers = 0;         // barriers of whole blocks
  std::int64_t matrix_products = 0;  // m16n8k16 products of warps

  // Lines of the faults, for a test's message.
  std::string describe_faults() const;
  // A line for each instruction that takes more than `most` times its least sectors or wavefronts.
  // Throws Error(kInternal) where they were not counted.
  std::string describe_waste(double most) const;
};

// The options of the launches in its lifetime, and what they report. One at a time.
class Emulation {
 public:
  explicit Emulation(const Options& options = {});
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;

  Report report() const;
};

// ---- device memory (device_memory.h), copied as cudaMemcpy does ----
// Memory of the thread's current GPU (queues.h).
std::byte* allocate(std::size_t size_bytes);
void free(std::byte* begin);
void copy_to_device(std::byte* to, const void* from, std::size_t size_bytes);
// Throws Error(kInternal) when a byte of `from` was never written.
void copy_from_device(void* to, const std::byte* from, std::size_t size_bytes);
// Copies between the device and the host, or on the device. Bytes that nobody has written stay so.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t size_bytes);

// ---- used by kernels/cuda/launch.cuh ----
struct Extent {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
struct Launch {
  Extent grid;
  int num_threads = 0;  // threads of a block
  std::size_t shared_bytes = 0;
  const void* params = nullptr;
  std::size_t params_bytes = 0;
  const char* kernel = "";                    // the mangled name of its struct
  const char* source = "";                    // the file that is compiled
  void (*run)(const void* params) = nullptr;  // what a thread does
  int device = 0;                             // the GPU: that of the queue
  bool begins_early = false;                  // kernels/cuda/dependent_launch.cuh
};

// Launches in its lifetime begin early.
class EarlyLaunches {
 public:
  EarlyLaunches();
  ~EarlyLaunches();
  EarlyLaunches(const EarlyLaunches&) = delete;
  EarlyLaunches& operator=(const EarlyLaunches&) = delete;
};

// Runs all blocks. An access outside of memory, or a collective that can never be complete, ends
// the launch; after any other fault it goes on. Throws Error(kInternal) without an Emulation.
void launch(const Launch& launch);
// A launch that begins early is run after those before it all the same; what its threads may not do
// before their wait is a fault.
// The same as work of a queue (queues.h), or at once when `queue` is null. Throws Error(kInternal)
// unless the queue's GPU is the thread's current one. Work of a queue that
// runs without an Emulation begins one that lasts, with the seed CAPTION_EMULATOR_SEED (0 when that
// is not set).
void launch(void* queue, const Launch& launch);
// Lines of the faults that the lasting emulation has found; empty without one.
std::string faults_of_lasting_emulation();

}  // namespace caption::cuda_emulator
