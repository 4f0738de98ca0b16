// tests/gpu/kernel_cases.h: launches of the CUDA kernels with the same operands in every build, so
// that their results on a GPU can be held against those on the emulator, bit for bit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::testing {

struct KernelCase {
  std::string name;  // "linear int4, 33 rows"
  // Runs the kernels on the stream's device, and returns what they wrote, on the host.
  std::function<Tensor(Stream& stream)> run;
};

// Cases of every kernel family of a GPU; no extent is a multiple of its tile.
std::vector<KernelCase> kernel_cases(int compute_capability);

// A dense layer [4096, 4096], whose time is that of reading its weights where there are few rows.
struct TimedLayer {
  std::string name;  // "linear int4 [4096, 4096], 16 rows"
  double bytes = 0;  // weights, inputs and outputs together
  std::function<void(Stream& stream)> launch;
};
std::vector<TimedLayer> timed_layers(Stream& stream);

}  // namespace caption::testing
