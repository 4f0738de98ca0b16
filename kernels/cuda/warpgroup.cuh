// kernels/cuda/warpgroup.cuh: products of a warpgroup (PTX ISA 8.x, "Asynchronous Warpgroup Level
// Matrix Instructions", wgmma), which GPUs of compute capability 9.0 alone have, and which alone
// reach their full rate.
//
// A warpgroup is four consecutive warps, of which the first is a multiple of 4. All of its threads
// call these functions, but for show_to_products(), from one place of the source. Products are
// asynchronous:
//
//   show_to_products();                  // by the threads that wrote the rows of x
//   sync_block();
//   begin_products();
//   multiply_warpgroup(sums, a, rows, step);   // as often as needed
//   commit_products();
//   ...
//   wait_products<0>(sums);
//
// Between a product and the wait that completes its group, the threads do not access its sums, do
// not write its fragment, which therefore is a variable of its own, and do not write its rows of x.
//
// kGpusOfWarpgroups (kernels/cuda/gpus.h) names the GPUs. The instructions are in the feature set
// of sm_90a, for which nvcc compiles the sources warpgroup_*.cu beside sm_90
// (scripts/cmake/CaptionCuda.cmake); in the code of others they are a trap.
#pragma once

#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// Rows of x in shared memory, aligned to 1,024 bytes: 64 columns of 16 bits each, of which the unit
// of 16 bytes u is at u ^ row % 8 ("128-byte swizzle"), so that eight rows meet each bank once.
inline constexpr int kWarpgroupGroups = 24;  // of 8 rows, of a product
inline constexpr int kSwizzledUnits = 8;     // of a row
CAPTION_DEVICE int swizzled_unit(int row, int unit) { return unit ^ row % kSwizzledUnits; }

#ifdef __CUDACC__

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What the thread has written to shared memory, copies that it has waited for included, happens
// before the reads of products that begin after a barrier.
CAPTION_DEVICE void show_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Accesses of sums and fragments before it happen before products after it. Sums that only products
// have accessed since need none.
CAPTION_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Makes a group of the warpgroup's products since its last group.
CAPTION_DEVICE void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define CAPTION_GROUP(c, g) \
  "+f"((c)[g].sum[0]), "+f"((c)[g].sum[1]), "+f"((c)[g].sum[2]), "+f"((c)[g].sum[3])
#define CAPTION_GROUPS_4(c, g)                                               \
  CAPTION_GROUP(c, g), CAPTION_GROUP(c, (g) + 1), CAPTION_GROUP(c, (g) + 2), \
      CAPTION_GROUP(c, (g) + 3)
#define CAPTION_GROUPS(c)                                                                          \
  CAPTION_GROUPS_4(c, 0), CAPTION_GROUPS_4(c, 4), CAPTION_GROUPS_4(c, 8), CAPTION_GROUPS_4(c, 12), \
      CAPTION_GROUPS_4(c, 16), CAPTION_GROUPS_4(c, 20)

// Waits until at most the last kGroupsLeft groups of products into these sums are not complete.
template <int kGroupsLeft>
CAPTION_DEVICE void wait_products(FragmentC (&c)[kWarpgroupGroups]) {
  asm volatile("wgmma.wait_group.sync.aligned %96;"
               : CAPTION_GROUPS(c)
               : "n"(kGroupsLeft)
               : "memory");
}

// Begins c [64, 192] += a [64, 16] * b^T, where warp w of the warpgroup has the rows 16 w ... 16 w
// + 15 of a and c, c in groups of 8 columns, and b has the columns 16 step ... 16 step + 15 of 192
// rows of x. The operand in shared memory is told by a matrix descriptor: bits 0-13 its address,
// 32-45 the distance of groups of 8 rows, both in units of 16 bytes, 62-63 the swizzle.
CAPTION_DEVICE void multiply_warpgroup(FragmentC (&c)[kWarpgroupGroups], const FragmentA& a,
                                       const Bytes16* rows, int step) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kGroupDistance = std::uint64_t{8 * kSwizzledUnits} << 32;
  const std::uint32_t address = shared_address(rows + 2 * step);
  const std::uint64_t descriptor = kSwizzle128 | kGroupDistance | (address & 0x3FFFFu) >> 4;
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95}, {%96, %97, %98, %99}, %100, 1, 1, 1, 0;"
      : CAPTION_GROUPS(c)
      : "r"(a.pair[0]), "r"(a.pair[1]), "r"(a.pair[2]), "r"(a.pair[3]), "l"(descriptor)
      : "memory");
}

#undef CAPTION_GROUPS
#undef CAPTION_GROUPS_4
#undef CAPTION_GROUP

#else

CAPTION_DEVICE void show_to_products() { __trap(); }
CAPTION_DEVICE void begin_products() { __trap(); }
CAPTION_DEVICE void commit_products() { __trap(); }
template <int kGroupsLeft>
CAPTION_DEVICE void wait_products(FragmentC (&)[kWarpgroupGroups]) {
  __trap();
}
CAPTION_DEVICE void multiply_warpgroup(FragmentC (&)[kWarpgroupGroups], const FragmentA&,
                                       const Bytes16*, int) {
  __trap();
}

#endif

#endif

}  // namespace caption::kernels::cuda

#ifndef __CUDACC__
#include "tests/support/cuda/warpgroup_functions.h"
#endif
