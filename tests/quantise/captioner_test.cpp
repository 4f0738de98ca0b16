// A captioner that is quantised here beside transformers and bitsandbytes, which ran the files that
// caption-cli had made of it (scripts/make_goldens_quantize_captioners.py).
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/caption_model.h"
#include "quantise/quantise_checkpoint.h"
#include "tensor/tensor.h"
#include "tests/model/captioner_golden.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"
#include "weights/safetensors_writer.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Writes a checkpoint of f32 numbers: those that the codes of `quantised` stand for.
void write_decoded(const fs::path& plain, const fs::path& quantised, const fs::path& folder) {
  fs::copy(plain, folder);
  const auto numbers = weights::open_source(quantised);
  const weights::Checkpoint names = weights::Checkpoint::open(plain);
  std::vector<weights::PlannedTensor> tensors;
  for (const std::string& name : names.names()) {
    tensors.push_back(weights::plan_copy(names, name));
    REQUIRE(tensors.back().dtype == "F32");
  }
  weights::SafetensorsWriter writer(folder / "model.safetensors", tensors);
  for (const std::string& name : names.names()) {
    const ConstView tensor = numbers->read(name, names.shape(name).value());
    REQUIRE(tensor.dtype() == DType::kF32);
    const float* const begin = tensor.as<float>();
    writer.write(name,
                 std::as_bytes(std::span(begin, static_cast<std::size_t>(tensor.num_elements()))));
    numbers->release(name);
  }
  writer.finish();
}

}  // namespace

TEST_SUITE_BEGIN("quantise/captioner");

TEST_CASE("a captioner quantised here has the logits that transformers finds with its files") {
  for (const char* const name : {"nf4", "nf4_double", "fp4"}) {
    CAPTURE(name);
    const CaptionerGolden golden("quantise_captioners", name);
    const fs::path place = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/quantise_captioners" / name;
    const fs::path scratch = fs::path(CAPTION_TEST_TMP) / "quantise_captioner";
    fs::remove_all(scratch);
    fs::create_directories(scratch);
    const std::vector<std::string> options =
        JsonObject::open(place / "expected.json", ErrorCode::kBadReference).get_strings("quantize");
    REQUIRE_FALSE(options.empty());
    const QuantiseOutcome outcome = quantise_checkpoint(
        {.model = golden.folder(),
         .output = scratch / "codes",
         .format = options.front(),
         .format_options = {.double_quant = options.back() == "--double-quant"}});
    REQUIRE(outcome.is_complete);
    write_decoded(golden.folder(), scratch / "codes", scratch / "decoded");
    const auto model =
        model::open_model(Context{}, scratch / "decoded", weights::WeightFormat::kF32);
    check_golden_clips(*model, place);
  }
}

TEST_SUITE_END();

}  // namespace caption::quantise
