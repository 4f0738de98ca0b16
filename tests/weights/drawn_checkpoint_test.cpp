// The checkpoints that tests draw from a seed hold the numbers that scripts/drawn.py gives the
// reference.
#include "tests/support/drawn_checkpoint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

namespace caption::weights {
namespace {

std::vector<double> to_doubles(ConstView tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    switch (tensor.dtype()) {
      case DType::kF32: values.push_back(tensor.as<float>()[i]); break;
      case DType::kBF16: values.push_back(to_float(tensor.as<BF16>()[i])); break;
      case DType::kF16: values.push_back(to_float(tensor.as<F16>()[i])); break;
      default: FAIL("a dtype that no checkpoint is drawn in");
    }
  }
  return values;
}

TEST_SUITE("weights/drawn_checkpoint") {
  TEST_CASE("drawn tensors equal those of the script") {
    const std::filesystem::path golden = CAPTION_SOURCE_DIR "/tests/golden/weights/drawn";
    const testing::DrawnCheckpoint drawn(golden);
    const Checkpoint checkpoint = Checkpoint::open(drawn.path());
    const JsonObject expected =
        JsonObject::open(golden / "expected.json", ErrorCode::kBadReference);
    CHECK(checkpoint.names() == expected.keys());
    for (const std::string& name : checkpoint.names()) {
      CAPTURE(name);
      CHECK(to_doubles(*checkpoint.find(name)) == expected.get_doubles(name));
    }
    CHECK(checkpoint.find("layer.weight")->shape() == Shape({3, 5}));
    CHECK(checkpoint.find("layer.weight")->dtype() == DType::kBF16);
  }

  TEST_CASE("the folder goes with the object") {
    std::filesystem::path folder;
    {
      const testing::DrawnCheckpoint drawn(CAPTION_SOURCE_DIR "/tests/golden/weights/drawn");
      folder = drawn.path();
      CHECK(std::filesystem::exists(folder / "model.safetensors"));
      CHECK_FALSE(std::filesystem::exists(folder / "expected.json"));
    }
    CHECK_FALSE(std::filesystem::exists(folder));
  }
}

}  // namespace
}  // namespace caption::weights
