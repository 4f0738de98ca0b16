// The codes that are predicted for a quantised checkpoint, beside those of the checkpoint.
#include "quantise/made_blueprint.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "model/read_blueprint.h"
#include "plan/known_models.h"
#include "quantise/make_gguf.h"
#include "quantise/quantise_checkpoint.h"
#include "tests/quantise/folders.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/format.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

auto parts_of(const weights::StoredCodes& codes) {
  const CodeLayout& layout = codes.layout;
  return std::tuple(codes.method, codes.format, codes.rounds_activations, layout.is_8_bit,
                    layout.group_columns, layout.has_offsets, layout.has_column_order,
                    layout.numbers.scales, layout.numbers.offsets);
}

fs::path make(const fs::path& folder, std::string_view format) {
  const fs::path output = new_folder("quantise_made_blueprint");
  if (const GgufFormat* const gguf = find_gguf_format(format)) {
    const auto made = make_gguf(
        {.model = folder, .output = output, .format = std::string(format), .type = gguf->weights});
    return made.value().text_file;
  }
  REQUIRE(quantise_checkpoint({.model = folder, .output = output, .format = std::string(format)})
              .is_complete);
  return output;
}

// Returns the number of matrices of codes.
int check_codes(const fs::path& folder, std::string_view format) {
  const model::Blueprint predicted = made_blueprint(model::read_blueprint(folder), format);
  const model::Blueprint found = model::read_blueprint(make(folder, format));
  REQUIRE(found.parameters.size() == predicted.parameters.size());
  int num_codes = 0;
  for (std::size_t i = 0; i < found.parameters.size(); ++i) {
    CAPTURE(found.parameters[i].name);
    const auto& expected = found.parameters[i].codes;
    const auto& codes = predicted.parameters[i].codes;
    CHECK(found.parameters[i].name == predicted.parameters[i].name);
    REQUIRE(codes.has_value() == expected.has_value());
    if (!codes) continue;
    ++num_codes;
    CHECK(parts_of(*codes) == parts_of(*expected));
  }
  const weights::WeightFormat bf16 = weights::WeightFormat::kBF16;
  CHECK(model::placed_bytes({}, predicted, bf16) == model::placed_bytes({}, found, bf16));
  return num_codes;
}

}  // namespace

TEST_SUITE_BEGIN("quantise/made_blueprint");

TEST_CASE("the codes of every format that is made of the demonstration model") {
  CHECK(code_formats().size() == 9);
  for (const std::string_view format : code_formats()) {
    CAPTURE(std::string(format));
    CHECK(check_codes(demo_model(), format) > 0);
  }
}

TEST_CASE("the codes of GGUF files of other families") {
  for (const char* const name :
       {"qwen2_5_vl/untied_f32", "qwen3_vl/untied_f32", "internvl/vit_300m_f32"}) {
    const DrawnCheckpoint checkpoint(golden(name));
    for (const std::string_view format : {"gguf-q8_0", "gguf-q4_0"}) {
      CAPTURE(name);
      CAPTURE(std::string(format));
      check_codes(checkpoint.path(), format);
    }
  }
}

TEST_CASE("a known shape, whose weights are not here") {
  const model::Blueprint shape = plan::find_known_model("qwen3-vl-2b").value();
  const model::Blueprint made = made_blueprint(shape, "gptq");
  const auto bf16 = weights::WeightFormat::kBF16;
  using model::Role;
  // A code of 4 bits and a 128th of an f16 number in place of 16 bits.
  CHECK(model::weight_bytes(made, bf16, Role::kDecoderLinear) * 16 * 8 ==
        model::weight_bytes(shape, bf16, Role::kDecoderLinear) * (4 * 8 + 1));
  CHECK(model::weight_bytes(made, bf16, Role::kHead) ==
        model::weight_bytes(shape, bf16, Role::kHead));
}

TEST_CASE("how a folder was made") {
  CHECK(read_made_as(make(demo_model(), "w8a8")) == "w8a8");
  CHECK(read_made_as(make(demo_model(), "gguf-q8_0")) == "gguf-q8_0");
  const fs::path output = new_folder("quantise_made_as");
  REQUIRE(quantise_checkpoint({.model = demo_model(),
                               .output = output,
                               .format = "w4a16",
                               .format_options = {.group_columns = 64}})
              .is_complete);
  CHECK(read_made_as(output) == "w4a16 --group-size 64");
  fs::resize_file(output / kManifestName, 7);
  CHECK(read_made_as(output).empty());
  CHECK(read_made_as(demo_model()).empty());
  CHECK(read_made_as("/nonexistent").empty());
}

TEST_CASE("a format that does not hold a model, and one that is none, are refused") {
  const model::Blueprint shape = plan::find_known_model("qwen3-vl-2b").value();
  for (const char* const name : {"gguf-f16", "bf16", ""}) {
    CAPTURE(std::string(name));
    CHECK_THROWS_AS(made_blueprint(shape, name), Error);
  }
  model::Blueprint odd = shape;
  for (model::Parameter& parameter : odd.parameters) {
    if (parameter.role == model::Role::kDecoderLinear) parameter.shape = {7, 9};
  }
  CHECK_THROWS_AS(made_blueprint(odd, "gptq"), Error);
  CHECK_THROWS_AS(made_blueprint(odd, "w4a16"), Error);
}

TEST_SUITE_END();

}  // namespace caption::quantise
