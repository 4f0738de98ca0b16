// Norm and rotation of the heads of q and k, and the pages of k and v: a warp per head of a token.
//
// A lane keeps its numbers of a head in registers until their norm is known; shared memory brings
// the halves that rotate together to one lane.
// Traffic  of a head of q 8 bytes per number, of k and v 4 in and 1 to 4 out.
// Sums     those of rms_norm() (kernels/cuda/norm.cu), in the same order: its block has a warp for
//          each 32 packs.
// Measured on no GPU.
#include "kernels/rope_kv_write.h"

#include "kernels/cuda/dependent_launch.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kv_pages.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rms.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kRopeThreads = 128;
constexpr int kRopeWarps = kRopeThreads / 32;
constexpr int kMostHeadDim = 256;

struct Heads {
  float* x;  // [tokens, heads, head_dim]
  std::int64_t stride;
  ConstNumbers norm;  // [head_dim], or null
  int count;
};

struct RopeKvWriteParams {
  Heads q;
  Heads k;
  const float* v;  // [tokens, k.count, head_dim]
  std::int64_t v_stride;
  const float* table;         // [tokens, head_dim]
  const std::int32_t* slots;  // [tokens]
  PagesHalf k_pages;
  PagesHalf v_pages;
  int vectors;  // tokens * (q.count + 2 * k.count)
  int head_dim;
  float eps;
};

// T is the pages' dtype; a lane loads kCount numbers of q and k at a time.
template <class T, int kCount>
struct RopeKvWrite {
  static constexpr int kThreads = kRopeThreads;
  static constexpr int kPacks = kMostHeadDim / (32 * kCount);  // packs per lane
  using Params = RopeKvWriteParams;
  struct Shared {
    float head[kRopeWarps][kMostHeadDim];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    wait_for_launches_before();  // one of them makes q, k and v
    const int vector = block_x() * kRopeWarps + warp_index();
    if (vector >= p.vectors) return;
    const int per_token = p.q.count + 2 * p.k.count;
    const int token = vector / per_token;
    const int head = vector % per_token;
    const int kv_head = (head - p.q.count) % p.k.count;
    float* const shared = shared_memory<Shared>().head[warp_index()];
    if (head < p.q.count) {
      float* const q = p.q.x + token * p.q.stride + head * p.head_dim;
      load_normed(p, p.q, q, shared);
      rotate(p, token, shared, q);
      return;
    }
    const std::int64_t slot_vector =
        static_cast<std::int64_t>(load(p.slots + token)) * p.k.count + kv_head;
    if (head < p.q.count + p.k.count) {
      load_normed(p, p.k, p.k.x + token * p.k.stride + kv_head * p.head_dim, shared);
      rotate(p, token, shared, shared);
      sync_warp();
      write_to_pages<T>(shared, p.head_dim, p.k_pages, slot_vector);
    } else {
      const float* const v = p.v + token * p.v_stride + kv_head * p.head_dim;
      write_to_pages<T>(v, p.head_dim, p.v_pages, slot_vector);
    }
  }

  static CAPTION_DEVICE void load_normed(const Params& p, const Heads& heads, const float* from,
                                         float* to) {
    Packed<float, kCount> x[kPacks];
    CAPTION_UNROLL
    for (int i = 0; i < kPacks; ++i) {
      const int c = column(i);
      x[i] = {};
      if (c < p.head_dim) x[i] = load(reinterpret_cast<const Packed<float, kCount>*>(from + c));
    }
    if (heads.norm.begin != nullptr) normalise(p, heads.norm, x);
    CAPTION_UNROLL
    for (int i = 0; i < kPacks; ++i) {
      const int c = column(i);
      if (c < p.head_dim) store(reinterpret_cast<Packed<float, kCount>*>(to + c), x[i]);
    }
    sync_warp();
  }

  static CAPTION_DEVICE void normalise(const Params& p, ConstNumbers norm,
                                       Packed<float, kCount> (&x)[kPacks]) {
    float sum = 0;
    CAPTION_UNROLL
    for (int i = 0; i < kPacks; ++i) {
      float squares = 0;
      for (int j = 0; j < kCount; ++j) squares = fused(x[i].x[j], x[i].x[j], squares);
      sum += sum_of_warp(squares);
    }
    const float factor = rms_factor(sum, p.head_dim, p.eps);
    CAPTION_UNROLL
    for (int i = 0; i < kPacks; ++i) {
      const int c = column(i);
      if (c >= p.head_dim) continue;
      const Packed<float, kCount> weight = load_numbers<kCount>(norm, c);
      for (int j = 0; j < kCount; ++j) x[i].x[j] = x[i].x[j] * factor * weight.x[j];
    }
  }

  // The first column of a lane's pack.
  static CAPTION_DEVICE int column(int pack) { return (pack * 32 + lane_index()) * kCount; }

  // `to` may be `from`.
  static CAPTION_DEVICE void rotate(const Params& p, int token, const float* from, float* to) {
    const int half = p.head_dim / 2;
    const float* const row = p.table + static_cast<std::int64_t>(token) * p.head_dim;
    for (int i = lane_index(); i < half; i += 32) {
      const float cosine = load(row + i);
      const float sine = load(row + half + i);
      const float a = load(from + i);
      const float b = load(from + half + i);
      store(to + i, a * cosine - b * sine);
      store(to + half + i, b * cosine + a * sine);
    }
  }
};

Heads heads_of(View x, ConstView norm) {
  return {.x = static_cast<float*>(x.raw()),
          .stride = x.row_stride(),
          .norm = numbers_of(norm),
          .count = static_cast<int>(x.dim(1))};
}

template <class T>
void launch_rope_kv_write(Stream& stream, int pack, const RopeKvWriteParams& params) {
  const Grid grid{.x = static_cast<unsigned>((params.vectors + kRopeWarps - 1) / kRopeWarps)};
  if (pack == 4) return launch_dependent<RopeKvWrite<T, 4>>(stream, grid, params);
  launch_dependent<RopeKvWrite<T, 1>>(stream, grid, params);
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void rope_kv_write(Cuda, Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages) {
  const auto& [q, k, v, q_norm, k_norm, eps] = heads;
  const cuda::RopeKvWriteParams params{
      .q = cuda::heads_of(q, q_norm),
      .k = cuda::heads_of(k, k_norm),
      .v = static_cast<const float*>(v.raw()),
      .v_stride = v.row_stride(),
      .table = static_cast<const float*>(rope_table.raw()),
      .slots = static_cast<const std::int32_t*>(slots.raw()),
      .k_pages = cuda::pages_half_of(pages.k, pages.k_scales),
      .v_pages = cuda::pages_half_of(pages.v, pages.v_scales),
      .vectors = static_cast<int>(q.dim(0) * (q.dim(1) + 2 * k.dim(1))),
      .head_dim = static_cast<int>(q.dim(2)),
      .eps = eps};
  const int pack = cuda::choose_pack({q, k, q_norm, k_norm});
  if (pages.k.dtype() == DType::kI8) {
    return cuda::launch_rope_kv_write<std::int8_t>(stream, pack, params);
  }
  dispatch_float(pages.k.dtype(), [&](auto tag) {
    cuda::launch_rope_kv_write<decltype(tag)>(stream, pack, params);
  });
}

}  // namespace caption::kernels::impl
