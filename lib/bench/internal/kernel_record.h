// bench/internal/kernel_record.h: kernels/cuda/resources.json, as it was when the program was
// built.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace caption::bench {

struct RecordedKernel {
  std::string name;
  int threads = 0;         // per block
  int blocks = 0;          // that a multiprocessor holds
  double bytes_ahead = 0;  // a warp's loads and copies before it uses the first
  // Instructions of the loop with the most tensor instructions, per such instruction; 0: it has
  // none. Those of branches that a launch does not take are counted.
  double instructions_per_product = 0;
  // Instructions of a round of that loop on the way that does most, without what a round may leave
  // out; 0: not recorded.
  double working_instructions = 0;
};

// The kernel whose name begins with `prefix`; if several do, that with the most instructions. Null
// if there is none, or if it traps on the architecture.
std::optional<RecordedKernel> find_recorded(std::string_view prefix, int architecture);

}  // namespace caption::bench
