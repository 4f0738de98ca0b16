// kernels/cuda/gpus.h: the GPUs for which a kernel is compiled. A kernel that computes what only
// some GPUs have, or what dispatch chooses on some only, says so:
//
//   struct Scale {
//     static constexpr Gpus kGpus = kFromAmpere;
//     ...                                        // as kernels/cuda/launch.cuh says
//   };
//
// On the other GPUs its code is a trap, which costs neither time to compile nor space, and
// launch() refuses it.
#pragma once

#include <type_traits>

#include "tensor/dtype.h"

namespace caption::kernels::cuda {

// GPUs of a compute capability (10 * major + minor) of at least `first` and below `end`.
struct Gpus {
  int first = 0;
  int end = 1000;

  constexpr bool contains(int compute_capability) const {
    return first <= compute_capability && compute_capability < end;
  }
};

inline constexpr Gpus kAllGpus{};
// Turing's tensor cores lack bf16, and its multiprocessors asynchronous copies.
inline constexpr Gpus kTuring{.first = 75, .end = 80};
inline constexpr Gpus kFromAmpere{.first = 80};
// Those with products of e4m3 numbers: Ada and later. The assembler of toolkits before CUDA 12.4
// (PTX ISA 8.4) does not know Ada's.
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1204
inline constexpr Gpus kGpusOfE4M3{.first = 90};
#else
inline constexpr Gpus kGpusOfE4M3{.first = 89};
#endif

// Those with products of warpgroups: Hopper alone (kernels/cuda/warpgroup.cuh).
inline constexpr Gpus kGpusOfWarpgroups{.first = 90, .end = 100};

// Where products of weights are made in T, as dtype_of_products() chooses it
// (kernels/cuda/weight_forms.h): f16 on Turing, bf16 elsewhere.
template <class T>
inline constexpr Gpus kGpusOfProducts = std::is_same_v<T, F16> ? kTuring : kFromAmpere;

template <class Kernel>
constexpr Gpus gpus_of() {
  if constexpr (requires { Kernel::kGpus; }) {
    return Kernel::kGpus;
  } else {
    return kAllGpus;
  }
}
// In device code, which cannot call host functions.
template <class Kernel, int kComputeCapability>
inline constexpr bool kRunsOn = gpus_of<Kernel>().contains(kComputeCapability);

}  // namespace caption::kernels::cuda
