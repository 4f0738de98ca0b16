#include "kernels/vision_embed.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void im2col_patches(Stream& stream, ConstView pixels, std::int64_t patch_px, View y) {
  const internal::Check check("im2col_patches", stream);
  check.rank("pixels", pixels, 4);
  check.f32("pixels", pixels, pixels.shape());
  if (patch_px < 1) check.fail("patch_px is " + std::to_string(patch_px) + "; wanted at least 1");
  const std::int64_t num_patches = (pixels.dim(2) / patch_px) * (pixels.dim(3) / patch_px);
  check.f32("y", y, {pixels.dim(0) * num_patches, pixels.dim(1) * patch_px * patch_px});
  dispatch(stream.device(),
           [&](auto device) { impl::im2col_patches(device, stream, pixels, patch_px, y); });
}

void vit_embeddings(Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y) {
  const internal::Check check("vit_embeddings", stream);
  check.rank("patches", patches, 2);
  check.rank("positions", positions, 2);
  const std::int64_t dim = patches.dim(1);
  const std::int64_t tokens = positions.dim(0);
  const std::int64_t class_tokens = class_embedding.empty() ? 0 : 1;
  const std::int64_t patches_per_frame = tokens - class_tokens;
  if (patches_per_frame < 1 || patches.dim(0) % patches_per_frame != 0)
    check.fail(std::to_string(patches.dim(0)) + " patches do not fill frames of " +
               std::to_string(tokens) + " positions" +
               (class_tokens == 1 ? " less the class token's" : ""));
  check.f32("patches", patches, patches.shape());
  if (class_tokens == 1) {
    check.floating("class_embedding", class_embedding, {dim});
    check.dense("class_embedding", class_embedding);
  }
  check.floating("positions", positions, {tokens, dim});
  check.f32("y", y, {patches.dim(0) / patches_per_frame * tokens, dim});
  check.dense("y", y);
  dispatch(stream.device(), [&](auto device) {
    impl::vit_embeddings(device, stream, patches, class_embedding, positions, y);
  });
}

}  // namespace caption::kernels
