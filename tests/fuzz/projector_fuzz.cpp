// Any bytes as the projector of a composed model: an Error, or dimensions from the shapes of its
// tensors that parameters can be made of. Input: projector.safetensors.
#include "model/internal/projector.h"
#include "tests/fuzz/files.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

constexpr std::int64_t kTextHidden = 16;

void read(const std::filesystem::path& path) {
  const weights::Checkpoint weights = weights::Checkpoint::open(path);
  const ProjectorFile file(weights);
  VisionSpec vision{.num_layers = 1, .hidden = 8, .num_heads = 2, .patch_px = 4, .image_px = 16};
  const ProjectorNames names = read_projector(&file, {}, kTextHidden, vision);
  Blueprint blueprint;
  blueprint.vision = vision;
  add_found_projector(blueprint, vision, names, 0);
  fuzz::require(!blueprint.parameters.empty(), "a projector has parameters");
  for (const Parameter& parameter : blueprint.parameters) {
    fuzz::require(parameter.rows() > 0 && parameter.columns() > 0, "parameters have elements");
  }
}

}  // namespace
}  // namespace caption::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size), {"projector.safetensors"});
  fuzz::expect_refusal_or_none({ErrorCode::kBadModel, ErrorCode::kUnavailable},
                               [&] { model::read(folder.path() / "projector.safetensors"); });
  return 0;
}
