// kernels/cpu/internal/quad_groups.h: the groups of columns of Tier::panel4a8.
//
// A template that is given a file's lambda is local to that file, so that each tier's file compiles
// a copy with its instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// A group of columns.
struct QuadGroup {
  std::int64_t index, first_quad, end_quad;
};

// Calls work(group) for the groups in ascending order.
template <class Work>
void for_each_quad_group(const Integer4Args& args, const Work& work) {
  QuadGroup group{};
  for (; group.first_quad < args.num_quads; group.first_quad += args.group_quads, ++group.index) {
    const std::int64_t end = group.first_quad + args.group_quads;
    group.end_quad = end < args.num_quads ? end : args.num_quads;
    work(group);
  }
}

}  // namespace caption::kernels::cpu
