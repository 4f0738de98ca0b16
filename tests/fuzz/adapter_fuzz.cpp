// Any bytes as a LoRA adapter: an Error, or terms whose factors fit each other and lie in the file.
// Input: adapter_config.json, a NUL byte, adapter_model.safetensors.
#include <cmath>

#include "model/internal/adapter.h"
#include "tests/fuzz/files.h"

namespace caption::model {
namespace {

void check_terms(const Adapter& adapter) {
  std::string last;
  for (const LoraTerm& term : adapter.terms()) {
    fuzz::require(term.a.shape().rank() == 2 && term.b.shape().rank() == 2, "factors are matrices");
    fuzz::require(term.a.dim(0) == term.b.dim(1) && term.a.dim(0) > 0, "factors have one rank");
    fuzz::require(std::isfinite(term.scale), "scales are finite");
    fuzz::require(last < term.module, "a module has one term, and terms are sorted");
    last = term.module;
  }
}

}  // namespace
}  // namespace caption::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size),
                                 {"adapter_config.json", "adapter_model.safetensors"});
  fuzz::expect_refusal_or_none({ErrorCode::kBadModel, ErrorCode::kUnavailable},
                               [&] { model::check_terms(model::Adapter::open(folder.path())); });
  return 0;
}
