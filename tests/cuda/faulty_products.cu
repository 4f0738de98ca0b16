// Pairs of kernels with products of warpgroups, of which one has a fault.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warpgroup.cuh"
#include "tests/cuda/faulty_kernels.h"

namespace caption::testing {
namespace {

using namespace kernels::cuda;
using cuda_emulator::Fault;

constexpr int kRows = 8 * kWarpgroupGroups;
constexpr int kUnits = kRows * kSwizzledUnits;

// A kernel of one warpgroup.
struct ProductKernel {
  static constexpr int kThreads = 128;
  struct Params {
    float* memory;  // [256]
  };
  struct alignas(1024) Shared {
    Bytes16 rows[kUnits + 1];
  };
  static CAPTION_DEVICE Bytes16* rows() { return shared_memory<Shared>().rows; }

  static CAPTION_DEVICE void write_rows() {
    for (int i = thread_index(); i <= kUnits; i += kThreads) store(rows() + i, Bytes16{});
  }
  // What the block needs before its products.
  static CAPTION_DEVICE void prepare_rows() {
    write_rows();
    show_to_products();
    sync_block();
  }
};

template <bool kFaulty>
struct SumsReadBeforeTheWait : ProductKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    if constexpr (!kFaulty) wait_products<0>(sums);
    p.memory[thread_index()] = sums[5].sum[2];
    wait_products<0>(sums);
  }
};

// Two groups are under way; the second is needed.
template <bool kFaulty>
struct ProductGroupTooFew : ProductKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    FragmentC sums[2][kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    for (int i = 0; i < 2; ++i) {
      multiply_warpgroup(sums[i], a, rows(), i);
      commit_products();
    }
    wait_products<1>(sums[0]);
    if constexpr (!kFaulty) wait_products<0>(sums[1]);
    p.memory[thread_index()] = sums[0][0].sum[0] + sums[1][0].sum[0];
    wait_products<0>(sums[1]);
  }
};

template <bool kFaulty>
struct FragmentWrittenBeforeTheWait : ProductKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    FragmentC sums[kWarpgroupGroups] = {};
    FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    if constexpr (!kFaulty) wait_products<0>(sums);
    a.pair[1] = 1;
    wait_products<0>(sums);
    p.memory[thread_index()] = float_of_bits(a.pair[1]);
  }
};

// A product waits for a group that was never made, so that it is under way until the end.
template <bool kFaulty>
struct ProductInNoGroup : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 3);
    if constexpr (!kFaulty) commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct RowsWrittenBeforeTheWait : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    if constexpr (!kFaulty) wait_products<0>(sums);
    sync_block();
    if (thread_index() == 7) store(rows(), Bytes16{});
    wait_products<0>(sums);
  }
};

// Some threads of the block have waited for the product, and one of them writes.
template <bool kFaulty>
struct RowsWrittenWithoutABarrier : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
    if constexpr (!kFaulty) sync_block();
    if (thread_index() == 7) store(rows(), Bytes16{});
  }
};

template <bool kFaulty>
struct ProductBeforeTheBarrier : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    write_rows();
    show_to_products();
    if constexpr (!kFaulty) sync_block();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct RowsNotShown : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    write_rows();
    if (!kFaulty || thread_index() != 9) show_to_products();
    sync_block();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

// Copies are complete when they are waited for, and shown after that.
template <bool kFaulty>
struct CopiesShownBeforeTheirWait : ProductKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    for (int i = thread_index(); i < kUnits; i += kThreads) {
      copy_16_async(rows() + i, p.memory + i % 64 * 4, true);
    }
    commit_copies();
    if constexpr (kFaulty) show_to_products();
    wait_copies<0>();
    if constexpr (!kFaulty) show_to_products();
    sync_block();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct ProductOfUnwaitedCopies : ProductKernel {
  static CAPTION_DEVICE void run(const Params& p) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    copy_16_async(rows() + 8 * thread_index(), p.memory, true);
    commit_copies();
    if constexpr (!kFaulty) wait_copies<0>();
    show_to_products();
    sync_block();
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
    wait_copies<0>();
  }
};

template <bool kFaulty>
struct SumsWrittenAfterBegin : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    if constexpr (kFaulty) begin_products();
    sums[3].sum[1] = 2;
    if constexpr (!kFaulty) begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

// The second product needs no begin of its own for its sums, but for its fragment.
template <bool kFaulty>
struct FragmentWrittenAfterBegin : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    FragmentA a[2] = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a[0], rows(), 0);
    multiply_warpgroup(sums, a[0], rows(), 1);
    a[1].pair[0] = 1;
    if constexpr (!kFaulty) begin_products();
    multiply_warpgroup(sums, a[1], rows(), 2);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct OneWarpDoesNotMultiply : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    if (kFaulty && warp_index() == 2) return;
    begin_products();
    multiply_warpgroup(sums, a, rows(), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct WarpsHaveOtherRows : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows(), kFaulty && warp_index() == 3 ? 1 : 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct MisalignedRows : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows() + (kFaulty ? 1 : 0), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <bool kFaulty>
struct RowsBeyondShared : ProductKernel {
  static CAPTION_DEVICE void run(const Params&) {
    FragmentC sums[kWarpgroupGroups] = {};
    const FragmentA a = {};
    prepare_rows();
    begin_products();
    multiply_warpgroup(sums, a, rows() + (kFaulty ? 2048 / 16 : 0), 0);
    commit_products();
    wait_products<0>(sums);
  }
};

template <class AKernel>
void launch_kernel(float* memory) {
  launch<AKernel>(nullptr, {}, {memory});
}

template <template <bool> class APair>
constexpr KernelPair pair(const char* name, Fault fault) {
  return {name, fault, launch_kernel<APair<true>>, launch_kernel<APair<false>>};
}

constexpr KernelPair kPairs[] = {
    pair<SumsReadBeforeTheWait>("sums are read before the wait", Fault::kUnwaitedProduct),
    pair<ProductGroupTooFew>("a wait leaves one group of products", Fault::kUnwaitedProduct),
    pair<FragmentWrittenBeforeTheWait>("a fragment is overwritten", Fault::kUnwaitedProduct),
    pair<ProductInNoGroup>("a product is in no group", Fault::kUnwaitedProduct),
    pair<RowsWrittenBeforeTheWait>("rows are overwritten before the wait", Fault::kRace),
    pair<RowsWrittenWithoutABarrier>("rows are overwritten without a barrier", Fault::kRace),
    pair<ProductBeforeTheBarrier>("rows are not behind a barrier", Fault::kRace),
    pair<RowsNotShown>("a thread does not show its rows", Fault::kUnorderedProduct),
    pair<CopiesShownBeforeTheirWait>("copies are shown too early", Fault::kUnorderedProduct),
    pair<ProductOfUnwaitedCopies>("copies of rows are not waited for", Fault::kUnwaitedCopy),
    pair<SumsWrittenAfterBegin>("sums are written after the begin", Fault::kUnorderedProduct),
    pair<FragmentWrittenAfterBegin>("a fragment is written after it", Fault::kUnorderedProduct),
    pair<OneWarpDoesNotMultiply>("a warp does not multiply", Fault::kDivergence),
    pair<WarpsHaveOtherRows>("a warp has other rows", Fault::kDivergence),
    pair<MisalignedRows>("rows are at no multiple of 1,024 bytes", Fault::kMisaligned),
    pair<RowsBeyondShared>("rows end beyond shared memory", Fault::kOutOfBounds),
};

}  // namespace

std::span<const KernelPair> product_pairs() { return kPairs; }

}  // namespace caption::testing
