// tests/support/cuda/warpgroup_functions.h: the functions of kernels/cuda/warpgroup.cuh on the
// emulator; included by that file only, which says what they do.
//
// A warp's products are made in their order, each at a moment that the seed draws: when it begins,
// or when it is waited for. Until then its sums may not be accessed, and its fragment and rows not
// be overwritten; what was written before must have been shown to it.
#pragma once

#include <cstddef>
#include <source_location>

#include "kernels/cuda/warpgroup.cuh"

namespace caption::cuda_emulator {

void wait_products(std::size_t groups_left, const std::source_location& place);

}  // namespace caption::cuda_emulator

namespace caption::kernels::cuda {

void show_to_products();
void begin_products(Place place = Place::current());
void commit_products(Place place = Place::current());
template <int kGroupsLeft>
[[gnu::always_inline]] inline void wait_products(FragmentC (&)[kWarpgroupGroups],
                                                 Place place = Place::current()) {
  cuda_emulator::wait_products(kGroupsLeft, place);
}
void multiply_warpgroup(FragmentC (&c)[kWarpgroupGroups], const FragmentA& a, const Bytes16* rows,
                        int step, Place place = Place::current());

}  // namespace caption::kernels::cuda
