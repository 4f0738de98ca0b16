#include "tests/support/cuda/access_cost.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/cuda/measured_kernels.h"
#include "tests/support/cuda/device_array.h"

using caption::cuda_emulator::Emulation;
using caption::cuda_emulator::InstructionCost;
using namespace caption::testing;

namespace {

struct Case {
  int size_bytes;    // per lane
  int stride_bytes;  // between lanes
  int units;         // sectors or wavefronts
  int least_units;
};

// The only instruction that the emulation counted.
InstructionCost only_cost(const Emulation& emulation) {
  CHECK(emulation.report().describe_faults() == "");
  const std::vector<InstructionCost> costs = emulation.report().costs;
  REQUIRE(costs.size() == 1);
  return costs.front();
}

}  // namespace

TEST_SUITE_BEGIN("cuda/access_cost");

TEST_CASE("a warp's access of global memory moves the sectors of 32 bytes that it touches") {
  constexpr Case kCases[] = {{2, 2, 2, 2},     {4, 4, 4, 4},     {8, 8, 8, 8},
                             {16, 16, 16, 16}, {4, 8, 8, 4},     {4, 32, 32, 4},
                             {4, 0, 1, 1},     {16, 32, 32, 16}, {2, 64, 32, 2}};
  const DeviceArray<float> memory(std::vector<float>(1024, 1.0F));
  for (const Case& c : kCases) {
    CAPTURE(c.size_bytes);
    CAPTURE(c.stride_bytes);
    const Emulation emulation({.counts_costs = true});
    launch_global_loads(memory.begin(), c.size_bytes, c.stride_bytes);
    const InstructionCost cost = only_cost(emulation);
    CHECK(cost.size_bytes == c.size_bytes);
    CHECK(cost.requests == 1);
    CHECK(cost.lanes == 32);
    CHECK(cost.units == c.units);
    CHECK(cost.least_units == c.least_units);
    CHECK(emulation.report().describe_waste(1).empty() == (c.units == c.least_units));
  }
}

TEST_CASE("a warp's access of shared memory takes a wavefront per word of the fullest bank") {
  // A stride of 128 bytes puts all lanes in one bank, 132 each in another, 8 two in each.
  constexpr Case kCases[] = {{4, 4, 1, 1},   {4, 128, 32, 1}, {4, 132, 1, 1},  {4, 8, 2, 1},
                             {2, 2, 1, 1},   {2, 4, 1, 1},    {8, 8, 2, 2},    {8, 128, 32, 2},
                             {16, 16, 4, 4}, {16, 32, 8, 4},  {16, 112, 4, 4}, {16, 128, 32, 4}};
  for (const Case& c : kCases) {
    CAPTURE(c.size_bytes);
    CAPTURE(c.stride_bytes);
    const Emulation emulation({.counts_costs = true});
    launch_shared_stores(c.size_bytes, c.stride_bytes);
    const InstructionCost cost = only_cost(emulation);
    CHECK(cost.units == c.units);
    CHECK(cost.least_units == c.least_units);
  }
}

TEST_CASE("lanes that leave a loop early are counted with the iterations that they made") {
  const DeviceArray<float> memory(std::vector<float>(32 * 32, 1.0F));
  const Emulation emulation({.counts_costs = true});
  launch_ragged_loads(memory.begin());
  const InstructionCost cost = only_cost(emulation);
  CHECK(cost.requests == 32);
  CHECK(cost.lanes == 32 * 33 / 2);
  // Iteration i has the lanes i to 31, whose last numbers end a row of 128 bytes.
  int sectors = 0;
  for (int i = 0; i < 32; ++i) sectors += 4 - i / 8;
  CHECK(cost.units == sectors);
}

TEST_SUITE_END();
