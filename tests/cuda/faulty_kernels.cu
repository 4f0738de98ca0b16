#include "tests/cuda/faulty_kernels.h"

#include <type_traits>

#include "kernels/cuda/arrive.cuh"
#include "kernels/cuda/dependent_launch.cuh"

namespace caption::testing {
namespace {

using namespace kernels::cuda;
using cuda_emulator::Fault;

constexpr int kNumbers = 256;  // floats in the device memory

struct Params {
  float* memory;
};

// A kernel of 64 threads, unless its body hides kThreads.
struct Kernel {
  static constexpr int kThreads = 64;
  using Params = testing::Params;
  struct Shared {
    Bytes16 units[16];
    float numbers[64];
  };
  static CAPTION_DEVICE Shared& shared() { return shared_memory<Shared>(); }
};

template <bool kFaulty>
struct BarrierMissing : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    shared().numbers[thread_index()] = 1;
    if constexpr (!kFaulty) sync_block();
    p.memory[thread_index()] = shared().numbers[thread_index() ^ 32];
  }
};

template <bool kFaulty>
struct WarpBarrierMissing : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    shared().numbers[thread_index()] = 1;
    if constexpr (!kFaulty) sync_warp();
    p.memory[thread_index()] = shared().numbers[thread_index() ^ 1];
  }
};

// A shuffle exchanges registers and orders no memory.
template <bool kFaulty>
struct ShuffleAsBarrier : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    shared().numbers[thread_index()] = 1;
    shuffle_xor(1.0F, 1);
    if constexpr (!kFaulty) sync_warp();
    p.memory[thread_index()] = shared().numbers[thread_index() ^ 1];
  }
};

// sync_warp() orders the accesses of one warp, not those of two.
template <bool kFaulty>
struct WarpBarrierForBlock : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    p.memory[thread_index()] = 1;
    if constexpr (kFaulty) {
      sync_warp();
    } else {
      sync_block();
    }
    p.memory[128 + thread_index()] = p.memory[thread_index() ^ 32];
  }
};

template <bool kFaulty>
struct OverwrittenWhileRead : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    shared().numbers[thread_index()] = 1;
    sync_block();
    const float other = shared().numbers[thread_index() ^ 32];
    if constexpr (!kFaulty) sync_block();
    shared().numbers[thread_index()] = other + 1;
    p.memory[thread_index()] = other;
  }
};

// All lanes of both warps read a number, then one of them overwrites it.
template <bool kFaulty>
struct OverwrittenByOneReader : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (thread_index() == 0) shared().numbers[0] = 1;
    sync_block();
    p.memory[thread_index()] = shared().numbers[0];
    if constexpr (!kFaulty) sync_block();
    if (thread_index() == 63) shared().numbers[0] = 2;
  }
};

template <bool kFaulty>
struct BlocksWriteOnePlace : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    p.memory[thread_index() + (kFaulty ? 0 : 64 * block_x())] = 1;
  }
};

template <bool kFaulty>
struct BlockReadsAnothers : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    const int from = kFaulty ? 1 - block_x() : block_x();
    p.memory[64 * block_x() + thread_index()] = p.memory[64 * from + thread_index()];
  }
};

// Block 0 writes what the two others read.
template <bool kFaulty>
struct BlockWritesWhatOthersRead : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    const float read = p.memory[thread_index()];
    const int to =
        kFaulty && block_x() == 0 ? thread_index() : 64 + 64 * block_x() + thread_index();
    p.memory[to] = read;
  }
};

template <bool kFaulty>
struct BeyondGlobal : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    p.memory[kNumbers - 64 + thread_index() + (kFaulty ? 1 : 0)] = 1;
  }
};

template <bool kFaulty>
struct BeforeGlobal : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (p.memory[thread_index() - (kFaulty ? 1 : 0)] > 1e9F) p.memory[64] = 1;
  }
};

template <bool kFaulty>
struct BeyondShared : Kernel {
  static CAPTION_DEVICE void run(const Params&) {
    shared().numbers[thread_index() + (kFaulty ? 1 : 0)] = 1;
  }
};

float host_number = 1;

template <bool kFaulty>
struct ReadsTheHost : Kernel {
  struct Params {
    const float* host;
    float* memory;
  };
  static CAPTION_DEVICE void run(const Params& p) {
    p.memory[thread_index()] = kFaulty ? *p.host : 1.0F;
  }
};

template <bool kFaulty>
struct Misaligned : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    const float* const from = p.memory + 4 * (thread_index() % 32) + (kFaulty ? 2 : 0);
    p.memory[192 + thread_index()] =
        float_of_bits(load(reinterpret_cast<const Bytes16*>(from)).word[0]);
  }
};

template <bool kFaulty>
struct ReadsUnwrittenShared : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (!kFaulty || thread_index() != 5) shared().numbers[thread_index()] = 1;
    p.memory[thread_index()] = shared().numbers[thread_index()];
  }
};

template <bool kFaulty>
struct CopyNotWaitedFor : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    Bytes16& unit = shared().units[thread_index() % 16];
    if (thread_index() < 16) {
      copy_16_async(&unit, p.memory + 4 * thread_index(), true);
      commit_copies();
      if constexpr (!kFaulty) wait_copies<0>();
      p.memory[128 + thread_index()] = float_of_bits(load(&unit).word[1]);
      wait_copies<0>();
    }
  }
};

// Two groups are under way; the second is needed.
template <bool kFaulty>
struct CopyGroupTooFew : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (thread_index() < 8) {
      for (int i = 0; i < 2; ++i) {
        copy_16_async(&shared().units[2 * thread_index() + i], p.memory + 4 * thread_index(), true);
        commit_copies();
      }
      wait_copies<kFaulty ? 1 : 0>();
      p.memory[128 + thread_index()] =
          float_of_bits(load(&shared().units[2 * thread_index() + 1]).word[0]);
      wait_copies<0>();
    }
  }
};

// Waiting makes a copy visible to the thread itself; others need a barrier.
template <bool kFaulty>
struct CopyOfAnotherThread : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    const int unit = thread_index() % 16;
    if (thread_index() < 16) copy_16_async(&shared().units[unit], p.memory + 4 * unit, true);
    commit_copies();
    wait_copies<0>();
    if constexpr (!kFaulty) sync_block();
    p.memory[128 + thread_index()] = float_of_bits(load(&shared().units[unit]).word[0]);
  }
};

template <bool kFaulty>
struct ReturnsWithCopies : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (thread_index() < 16) {
      copy_16_async(&shared().units[thread_index()], p.memory + 4 * thread_index(), true);
      commit_copies();
    }
    if constexpr (!kFaulty) wait_copies<0>();
  }
};

template <bool kFaulty>
struct CopyIntoWhatIsRead : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    Bytes16& unit = shared().units[thread_index() % 16];
    if (thread_index() < 16) store(&unit, Bytes16{});
    sync_block();
    p.memory[64 + thread_index()] = float_of_bits(load(&unit).word[0]);
    if constexpr (!kFaulty) sync_block();
    if (thread_index() < 16) copy_16_async(&unit, p.memory + 4 * thread_index(), true);
    commit_copies();
    wait_copies<0>();
  }
};

template <bool kFaulty>
struct HalfAWarpShuffles : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (kFaulty && thread_index() % 32 >= 16) return;
    p.memory[thread_index()] = shuffle_xor(1.0F, 1);
  }
};

template <bool kFaulty>
struct ShufflesAtTwoPlaces : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    float sum = 0;
    if (kFaulty && thread_index() % 2 == 0) {
      sum = shuffle_xor(1.0F, 1);
    } else {
      sum = shuffle_xor(2.0F, 1);
    }
    p.memory[thread_index()] = sum;
  }
};

template <bool kFaulty>
struct HalfABlockAtABarrier : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (!kFaulty || thread_index() < 32) sync_block();
    p.memory[thread_index()] = 1;
  }
};

CAPTION_DEVICE std::uint32_t* word(float* number) {
  return reinterpret_cast<std::uint32_t*>(number);
}

// Blocks and threads may add to one place, but not read it meanwhile.
template <bool kFaulty>
struct CountReadWhileOthersAdd : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (thread_index() == 0) *word(shared().numbers) = 0;
    sync_block();
    atomic_add(word(shared().numbers), 1);
    atomic_or(word(p.memory + 100), 2);
    if constexpr (!kFaulty) sync_block();
    if (block_x() == 0) store(word(p.memory + thread_index()), load(word(shared().numbers)));
  }
};

// The later of two blocks reads what the other wrote. The count is even before, as 1.0F is.
template <bool kFaulty, bool kCounts>
struct LastBlockReads : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    std::uint32_t* const counter = word(p.memory + 200);
    if (!kFaulty || kCounts) store(p.memory + block_x() * 64 + thread_index(), 1.0F);
    sync_block();
    if (kFaulty && !kCounts) store(p.memory + block_x() * 64 + thread_index(), 1.0F);
    if (thread_index() == 0) {
      const std::uint32_t before = kFaulty && kCounts ? atomic_add(counter, 1) : arrive(counter);
      store(word(shared().numbers), before % 2);
    }
    sync_block();
    if (load(word(shared().numbers)) == 0) return;
    const float other = load(p.memory + (1 - block_x()) * 64 + thread_index());
    store(p.memory + 128 + thread_index(), other);
  }
};
template <bool kFaulty>
using CountsAndDoesNotArrive = LastBlockReads<kFaulty, true>;
template <bool kFaulty>
using ArrivesBeforeItsBarrier = LastBlockReads<kFaulty, false>;

template <bool kFaulty>
struct OneThreadDoesNotAddAtomically : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (kFaulty && thread_index() == 7) {
      store(word(p.memory), 8U);
    } else {
      atomic_add(word(p.memory), 1);
    }
  }
};

template <bool kFaulty>
struct AddsToUnwrittenShared : Kernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (!kFaulty) store(shared().numbers + thread_index(), 0.0F);
    atomic_add(word(shared().numbers + thread_index()), 1);
    store(p.memory + thread_index(), 1.0F);
  }
};

template <bool kFaulty>
struct TooMuchShared : Kernel {
  struct Shared {
    Bytes16 units[(227 << 10) / 16 + (kFaulty ? 1 : 0)];
  };
  static CAPTION_DEVICE void run(const Params& p) { p.memory[thread_index()] = 1; }
};

// A launch that begins early.
struct EarlyKernel : Kernel {};

template <bool kFaulty>
struct WritesBeforeItsWait : EarlyKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if constexpr (kFaulty) p.memory[thread_index()] = 1;
    wait_for_launches_before();
    if constexpr (!kFaulty) p.memory[thread_index()] = 1;
  }
};

template <bool kFaulty>
struct AddsBeforeItsWait : EarlyKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    auto* const count = reinterpret_cast<std::uint32_t*>(p.memory);
    if constexpr (kFaulty) atomic_add(count, 1u);
    wait_for_launches_before();
    if constexpr (!kFaulty) atomic_add(count, 1u);
  }
};

template <bool kFaulty>
struct OneThreadDoesNotWait : EarlyKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    if (kFaulty && thread_index() == 5) return;
    wait_for_launches_before();
    p.memory[thread_index()] = 1;
  }
};

template <bool kFaulty>
struct WaitsTwice : EarlyKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    wait_for_launches_before();
    if constexpr (kFaulty) wait_for_launches_before();
    p.memory[thread_index()] = 1;
  }
};

template <bool kFaulty>
struct TooManyParameters : Kernel {
  struct Params {
    float* memory;
    float* unused[(4 << 10) / sizeof(float*) - 1 + (kFaulty ? 1 : 0)] = {};
  };
  static CAPTION_DEVICE void run(const Params& p) { p.memory[thread_index()] = 1; }
};

template <class AKernel, int kBlocks>
void launch_kernel(float* memory) {
  if constexpr (std::is_base_of_v<EarlyKernel, AKernel>) {
    launch_dependent<AKernel>(nullptr, {.x = kBlocks}, {memory});
  } else if constexpr (sizeof(typename AKernel::Params) != 2 * sizeof(float*)) {
    launch<AKernel>(nullptr, {.x = kBlocks}, {memory});
  } else {
    launch<AKernel>(nullptr, {.x = kBlocks}, {&host_number, memory});
  }
}

template <template <bool> class APair, int kBlocks = 1>
constexpr KernelPair pair(const char* name, Fault fault) {
  return {name, fault, launch_kernel<APair<true>, kBlocks>, launch_kernel<APair<false>, kBlocks>};
}

constexpr KernelPair kPairs[] = {
    pair<BarrierMissing>("a barrier is missing", Fault::kRace),
    pair<WarpBarrierMissing>("a barrier of the warp is missing", Fault::kRace),
    pair<ShuffleAsBarrier>("a shuffle is taken for a barrier", Fault::kRace),
    pair<WarpBarrierForBlock>("a warp's barrier is taken for a block's", Fault::kRace),
    pair<OverwrittenWhileRead>("numbers are overwritten while others read them", Fault::kRace),
    pair<OverwrittenByOneReader>("one of several readers overwrites", Fault::kRace),
    pair<BlocksWriteOnePlace, 2>("two blocks write one place", Fault::kRace),
    pair<BlockReadsAnothers, 2>("a block reads what another writes", Fault::kRace),
    pair<BlockWritesWhatOthersRead, 3>("a block writes what others read", Fault::kRace),
    pair<CountReadWhileOthersAdd, 2>("a count is read while others add to it", Fault::kRace),
    pair<CountsAndDoesNotArrive, 2>("a block is counted and does not arrive", Fault::kRace),
    pair<ArrivesBeforeItsBarrier, 2>("a block arrives before its barrier", Fault::kRace),
    pair<OneThreadDoesNotAddAtomically>("one of many additions is not atomic", Fault::kRace),
    pair<BeyondGlobal>("a write is beyond an allocation", Fault::kOutOfBounds),
    pair<BeforeGlobal>("a read is before an allocation", Fault::kOutOfBounds),
    pair<BeyondShared>("a write is beyond shared memory", Fault::kOutOfBounds),
    pair<ReadsTheHost>("a kernel reads the host's memory", Fault::kHostMemory),
    pair<Misaligned>("16 bytes are read at a multiple of 8", Fault::kMisaligned),
    pair<ReadsUnwrittenShared>("shared memory is read that nobody wrote", Fault::kUninitialised),
    pair<AddsToUnwrittenShared>("a sum begins with what nobody wrote", Fault::kUninitialised),
    pair<CopyNotWaitedFor>("a copy is not waited for", Fault::kUnwaitedCopy),
    pair<CopyGroupTooFew>("a wait leaves one group too many", Fault::kUnwaitedCopy),
    pair<CopyOfAnotherThread>("another thread's copy is read without a barrier", Fault::kRace),
    pair<ReturnsWithCopies>("a thread returns before its copies are there", Fault::kUnwaitedCopy),
    pair<CopyIntoWhatIsRead>("a copy overwrites what others read", Fault::kRace),
    pair<HalfAWarpShuffles>("half a warp shuffles", Fault::kDivergence),
    pair<ShufflesAtTwoPlaces>("lanes shuffle at two places", Fault::kDivergence),
    pair<HalfABlockAtABarrier>("half a block is at a barrier", Fault::kDivergence),
    pair<WritesBeforeItsWait>("a launch writes before it waits for others", Fault::kBeforeWait),
    pair<AddsBeforeItsWait>("a launch adds before it waits for others", Fault::kBeforeWait),
    pair<OneThreadDoesNotWait>("a thread does not wait for other launches", Fault::kBeforeWait),
    pair<WaitsTwice>("a launch waits for others twice", Fault::kBeforeWait),
    pair<TooMuchShared>("a block asks for too much shared memory", Fault::kLaunch),
    pair<TooManyParameters>("a launch has too many parameters", Fault::kLaunch),
};

}  // namespace

std::span<const KernelPair> kernel_pairs() { return kPairs; }

}  // namespace caption::testing
