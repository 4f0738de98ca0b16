// Any bytes as the JSON files of a model's folder: an Error, or a blueprint whose parameters can be
// counted. Input: config.json, a NUL byte, preprocessor_config.json, a NUL byte,
// generation_config.json.
#include "model/blueprint.h"
#include "model/generation_config.h"
#include "model/read_blueprint.h"
#include "tests/fuzz/files.h"

namespace caption::model {
namespace {

void read(const std::filesystem::path& folder, ModelPart part) {
  const Blueprint blueprint = read_blueprint(folder, part);
  const ParameterCounts counts = count_parameters(blueprint);
  fuzz::require(counts.projections >= 0 && counts.tower >= 0, "counts do not overflow");
  fuzz::require(weight_bytes(blueprint, weights::WeightFormat::kF32) >= 0, "bytes do not overflow");
}

}  // namespace
}  // namespace caption::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(
      fuzz::as_text(bytes, size),
      {"config.json", "preprocessor_config.json", "generation_config.json"});
  const auto codes = {ErrorCode::kBadModel, ErrorCode::kUnavailable};
  for (const auto part :
       {model::ModelPart::kWhole, model::ModelPart::kVision, model::ModelPart::kText}) {
    fuzz::expect_refusal_or_none(codes, [&] { model::read(folder.path(), part); });
  }
  fuzz::expect_refusal_or_none(codes, [&] { model::read_generation_config(folder.path()); });
  return 0;
}
