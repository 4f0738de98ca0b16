// The vision tower on more rows than its MLPs process at a time.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "model/blueprint.h"
#include "model/internal/vit_tower.h"
#include "model/random_model.h"
#include "tensor/copy.h"
#include "tests/support/tested_context.h"

namespace caption {
namespace {

TEST_SUITE("model/vit_tower") {
  TEST_CASE("frames of one pass have the bits they have alone, with any number of threads") {
    constexpr std::int64_t kFrames = 7;
    const model::VisionSpec shape = {.num_layers = 2,
                                     .hidden = 32,
                                     .intermediate = 80,
                                     .num_heads = 2,
                                     .patch_px = 4,
                                     .image_px = 56,
                                     .num_positions = 197};
    const std::int64_t tokens = model::tower_tokens(shape, {});
    REQUIRE(kFrames * tokens > model::tower_piece_rows(Device::kCpu));
    Tensor pixels(DType::kF32, {kFrames, 3, shape.image_px, shape.image_px});
    for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
      pixels.as<float>()[i] = static_cast<float>(i * 7919 % 509 - 254) / 128;
    }
    for (const weights::WeightFormat type :
         {weights::WeightFormat::kF32, weights::WeightFormat::kBF16}) {
      ThreadPool one(1), three(3);
      const Context context = testing::tested_context();
      Stream stream(context, one), other(context, three);
      model::RandomTower tower(stream, shape, type, 5);
      const Tensor uploaded = copy_to(stream, context.device, pixels.view());
      const ConstView on_device = tower.encode(other, uploaded.view());
      other.synchronize();
      const Tensor encoded = copy_to(stream, Device::kCpu, on_device);
      const std::vector<float> together(encoded.as<float>(),
                                        encoded.as<float>() + encoded.num_elements());
      REQUIRE(std::ssize(together) == kFrames * tokens * shape.hidden);
      for (std::int64_t frame = 0; frame < kFrames; ++frame) {
        const Tensor alone =
            copy_to(stream, Device::kCpu, tower.encode(stream, uploaded.view().rows(frame, 1)));
        const std::size_t size_bytes = static_cast<std::size_t>(tokens * shape.hidden) * 4;
        CHECK(std::memcmp(alone.as<float>(), together.data() + frame * tokens * shape.hidden,
                          size_bytes) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace caption
