// A thread per pack of numbers of a row.
//
// Traffic  4 bytes per number in and out; class token and positions are in L2. Measured on no GPU.
#include "kernels/vision_embed.h"

#include "kernels/cuda/elementwise.cuh"
#include "kernels/grid_patches.h"

namespace caption::kernels::cuda {
namespace {

struct EmbeddingsParams {
  const float* patches;
  ConstNumbers class_embedding;  // null without a class token
  ConstNumbers positions;        // [tokens, dim]
  float* y;                      // [frames * tokens, dim]
  std::int64_t patch_stride;
  std::int64_t position_stride;
  int class_tokens;
  int tokens;  // tokens per frame
  int dim;
  Pieces pieces;
};

template <int kCount>
struct VitEmbeddings {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = EmbeddingsParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.dim) return;
    const int row = p.pieces.row();
    const int token = row % p.tokens;
    using Pack = Packed<float, kCount>;
    const Pack position = load_numbers<kCount>(p.positions, token * p.position_stride + c);
    Pack y;
    if (token < p.class_tokens) {
      y = load_numbers<kCount>(p.class_embedding, c);
    } else {
      const std::int64_t patch = row - (row / p.tokens + 1) * p.class_tokens;
      y = load(reinterpret_cast<const Pack*>(p.patches + patch * p.patch_stride + c));
    }
    for (int k = 0; k < kCount; ++k) y.x[k] += position.x[k];
    store(reinterpret_cast<Pack*>(p.y + static_cast<std::int64_t>(row) * p.dim + c), y);
  }
};

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

// The grid's order without windows and with images of one frame. Pixels beyond the last patch are
// not reached.
void im2col_patches(Cuda, Stream& stream, ConstView pixels, std::int64_t patch_px, View y) {
  im2col_grid(Cuda{}, stream, pixels, {.frames = 1, .patch_px = patch_px, .merge = 1}, y);
}

void vit_embeddings(Cuda, Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y) {
  cuda::launch_pieces<cuda::VitEmbeddings>(
      stream, y.dim(0), y.dim(1), cuda::choose_pack({patches, class_embedding, positions, y}),
      {.patches = static_cast<const float*>(patches.raw()),
       .class_embedding = cuda::numbers_of(class_embedding),
       .positions = cuda::numbers_of(positions),
       .y = static_cast<float*>(y.raw()),
       .patch_stride = patches.row_stride(),
       .position_stride = positions.row_stride(),
       .class_tokens = class_embedding.empty() ? 0 : 1,
       .tokens = static_cast<int>(positions.dim(0)),
       .dim = static_cast<int>(y.dim(1)),
       .pieces = {}});
}

}  // namespace caption::kernels::impl
