#include "model/internal/vision_encoder.h"

#include <algorithm>

#include "model/internal/equal_images.h"
#include "model/internal/qwen_vision_encoder.h"
#include "model/internal/vit_encoder.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

ClipShape shape_of(ConstView pixels) {
  return {.num_frames = pixels.dim(0),
          .frame = {.width_px = pixels.dim(3), .height_px = pixels.dim(2)}};
}

// Rows of one image in the tower.
std::int64_t tower_rows(const VisionSpec& spec, const Shape& pixels) {
  return pixels[2] / spec.patch_px * (pixels[3] / spec.patch_px) + spec.class_tokens;
}

// A clip of encode_clips() and what is computed for it.
struct Clip {
  ConstView pixels;
  View tokens;
  std::int64_t frames_per_image = 1;
  std::int64_t rows_per_image = 0;    // rows of an image in the tower
  std::int64_t tokens_per_image = 0;  // tokens of an image for the decoder
  std::vector<std::int64_t> first_equal;

  std::int64_t num_images() const { return std::ssize(first_equal); }
  ConstView pixels_of(std::int64_t image, std::int64_t count) const {
    const std::int64_t first = image * frames_per_image;
    return pixels.rows(first, std::min(count * frames_per_image, pixels.dim(0) - first));
  }
  View tokens_of(std::int64_t image, std::int64_t count) const {
    return tokens.rows(image * tokens_per_image, count * tokens_per_image);
  }
  bool is_repeated(std::int64_t image) const {
    return first_equal[static_cast<std::size_t>(image)] != image;
  }
  // The number of images from `image` on, at most `most`, that equal no earlier one.
  std::int64_t count_new(std::int64_t image, std::int64_t most) const {
    std::int64_t count = 0;
    while (count < most && image + count < num_images() && !is_repeated(image + count)) ++count;
    return count;
  }
};

// Divides the images of all clips, in order, into passes of at most `max_rows` rows, or one image.
std::vector<std::vector<ImageRun>> divide_into_passes(const std::vector<Clip>& clips,
                                                      std::int64_t max_rows) {
  std::vector<std::vector<ImageRun>> passes;
  std::int64_t free_rows = 0;
  for (const Clip& clip : clips) {
    std::int64_t image = 0;
    while (image < clip.num_images()) {
      if (clip.is_repeated(image)) {
        ++image;
        continue;
      }
      if (passes.empty() || clip.rows_per_image > free_rows) {
        passes.emplace_back();
        free_rows = max_rows;
      }
      const std::int64_t fitting = std::max<std::int64_t>(1, free_rows / clip.rows_per_image);
      const std::int64_t count = clip.count_new(image, fitting);
      passes.back().push_back({clip.pixels_of(image, count), clip.tokens_of(image, count)});
      free_rows -= count * clip.rows_per_image;
      image += count;
    }
  }
  return passes;
}

// Copies the tokens of images that equal an earlier one of their clip.
void copy_repeated(Stream& stream, const Clip& clip) {
  for (std::int64_t image = 0; image < clip.num_images(); ++image) {
    if (!clip.is_repeated(image)) continue;
    const std::int64_t first = clip.first_equal[static_cast<std::size_t>(image)];
    copy(stream, clip.tokens_of(first, 1), clip.tokens_of(image, 1));
  }
}

}  // namespace

std::int64_t VisionEncoder::num_tokens(const ClipShape& clip) const {
  return num_images(spec(), clip.num_frames) * image_tokens(clip) +
         (spec().ends_with_newline ? 1 : 0);
}

double VisionEncoder::pass_share(const Shape& pixels) const {
  const std::int64_t rows = num_images(spec(), pixels[0]) * tower_rows(spec(), pixels);
  return static_cast<double>(rows) / static_cast<double>(pass_rows(spec()));
}

std::vector<Tensor> VisionEncoder::encode_clips(Stream& stream, std::span<const ConstView> clips) {
  prepare(stream, clips);
  std::vector<Tensor> encoded;
  std::vector<Clip> all;
  for (const ConstView& pixels : clips) {
    const ClipShape shape = shape_of(pixels);
    encoded.emplace_back(DType::kF32, Shape{num_tokens(shape), token_width()}, stream.device());
    all.push_back({.pixels = pixels,
                   .tokens = encoded.back().view(),
                   .frames_per_image = spec().frames_per_image,
                   .rows_per_image = tower_rows(spec(), pixels.shape()),
                   .tokens_per_image = image_tokens(shape),
                   .first_equal = find_equal_images(pixels, spec().frames_per_image)});
  }
  for (const std::vector<ImageRun>& runs : divide_into_passes(all, pass_rows(spec()))) {
    encode_pass(stream, runs);
  }
  for (const Clip& clip : all) {
    copy_repeated(stream, clip);
    const std::int64_t num_written = clip.num_images() * clip.tokens_per_image;
    const std::int64_t num_left = clip.tokens.dim(0) - num_written;
    if (num_left > 0) write_rest(stream, clip.tokens.rows(num_written, num_left));
  }
  stream.synchronize();  // the caller may free the pixels
  return encoded;
}

std::unique_ptr<VisionEncoder> make_vision_encoder(const PlacedWeights& weights,
                                                   const Blueprint& blueprint) {
  if (!blueprint.qwen_tower.blocks.empty()) {
    return std::make_unique<QwenVisionEncoder>(weights, blueprint);
  }
  return std::make_unique<VitEncoder>(weights, blueprint);
}

}  // namespace caption::model
