// Launches of attention on tensor cores.
#include "kernels/cuda/attend.h"
#include "kernels/cuda/attend_tiles.cuh"
#include "kernels/cuda/dependent_launch.cuh"

namespace caption::kernels::cuda {
namespace {

template <class T, class Element, int kDimTiles, TileWork kWork>
void launch_kernel(Stream& stream, const AttendParams& params) {
  using Kernel = AttendTiles<T, Element, kDimTiles, kWork>;
  launch_dependent<Kernel>(stream, grid_of_tiles(params, Kernel::kTileRows), params);
}

template <class T, class Element, int kDimTiles>
void launch_tiles(Stream& stream, const AttendParams& params) {
  if (params.states == nullptr) {
    return launch_kernel<T, Element, kDimTiles, TileWork::kAllSplits>(stream, params);
  }
  if constexpr (std::is_same_v<T, F16>) {
    if (kTuring.contains(stream.context().compute_capability)) {
      return launch_kernel<T, Element, kDimTiles, TileWork::kSplitOneBuffer>(stream, params);
    }
  }
  launch_kernel<T, Element, kDimTiles, TileWork::kSplit>(stream, params);
}

template <class T, class Element>
void launch_for_dim(Stream& stream, const AttendParams& params) {
  if (params.head_dim <= 64) return launch_tiles<T, Element, 4>(stream, params);
  if constexpr (std::is_same_v<T, Element>) {
    // Towers have heads of 72 and 80 dimensions. The sums are those of 128, of which the rest are
    // zeros.
    if (params.head_dim <= 80 && params.states == nullptr) {
      return launch_kernel<T, Element, 5, TileWork::kAllSplits>(stream, params);
    }
  }
  launch_tiles<T, Element, 8>(stream, params);
}

}  // namespace

bool attends_tiles(const AttendParams& p) {
  if (p.kv_dtype == DType::kF32 || p.head_dim > 128 || p.head_dim < 32) return false;
  const int pack = p.kv_dtype == DType::kI8 ? 16 : 8;  // elements of 16 bytes
  const auto is_aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  return p.head_dim % pack == 0 && p.kv_stride % pack == 0 && is_aligned(p.k) && is_aligned(p.v);
}

void attend_tiles(Stream& stream, const AttendParams& params) {
  if (params.kv_dtype == DType::kBF16) return launch_for_dim<BF16, BF16>(stream, params);
  if (params.kv_dtype == DType::kF16) return launch_for_dim<F16, F16>(stream, params);
  launch_for_dim<BF16, std::int8_t>(stream, params);
}

}  // namespace caption::kernels::cuda
