// model/internal/adapter.h: a LoRA adapter as PEFT saves it: adapter_config.json and
// adapter_model.safetensors.
//   y = W x + s * B (A x)     s = lora_alpha / r, with use_rslora lora_alpha / sqrt(r)
// Source: arXiv:2106.09685, arXiv:2312.03732 (rslora); peft 0.21 tuners/lora/{config,layer}.py.
//
// The tensors of the file say which modules are adapted; a target_modules that is a regular
// expression is therefore not evaluated, a list of names is compared with the tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "model/blueprint.h"
#include "tensor/tensor.h"
#include "weights/checkpoint.h"

namespace caption::model {

// The low-rank term of one module. The views borrow from the Adapter.
struct LoraTerm {
  std::string module;  // "model.layers.0.self_attn.q_proj", without PEFT's "base_model.model."
  ConstView a;         // [r, in] f32, bf16 or f16
  ConstView b;         // [out, r]
  float scale = 1;
  // The weight of the base model that PEFT saves beside an adapted LM head, [out, in], or nullopt.
  std::optional<ConstView> base = std::nullopt;
};

// Movable. Thread-safe.
class Adapter {
 public:
  // Opens and validates a folder. Throws Error(kBadModel) naming file and key or tensor when a file
  // is missing or broken, a value is impossible (r = 0), a tensor is not finite, has another rank
  // than the configuration says, has no partner, occurs twice (with and without PEFT's
  // "base_model.model.") or belongs to no target module; kUnavailable for
  // what this build cannot apply: another peft_type, DoRA, modules_to_save, trained biases,
  // adapted embeddings and convolutions, weights that are not safetensors, and every unknown key
  // with a value.
  static Adapter open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<LoraTerm>& terms() const { return terms_; }  // sorted by module

  // SHA-256 over both files. Throws as Checkpoint::content_hash().
  Sha256 content_hash(const DigestCache& digests) const;
  // As Checkpoint::find_changed_file().
  std::optional<std::string> find_changed_file() const { return weights_.find_changed_file(); }

 private:
  Adapter(std::filesystem::path folder, weights::Checkpoint weights)
      : folder_(std::move(folder)), weights_(std::move(weights)) {}

  std::filesystem::path folder_;
  weights::Checkpoint weights_;
  Sha256 config_digest_;
  std::vector<LoraTerm> terms_;
};

// Whether a folder holds a file of an adapter, complete or not.
bool holds_adapter(const std::filesystem::path& folder);

// The term of an adapter that changes a parameter of a model. If the parameter is a range of rows
// of the adapted module (StoredName), the term has these rows of B alone.
struct BoundTerm {
  LoraTerm term;
  ParameterId parameter = kNoParameter;
};
// Finds the parameters of each term, under any of their group's prefixes and in either layout, as
// transformers of any version names modules. `source`, if set, restricts the search to parameters
// of that weight file (ParameterGroup::source). Terms of layers of the vision tower that do not run
// are left out. Throws Error(kBadModel), naming module and shapes, for a term that has no parameter
// or does not fit it (the adapter is another base's), and for two terms of one parameter;
// kUnavailable for an LM head that is the embedding.
std::vector<BoundTerm> bind_terms(const Adapter& adapter, const Blueprint& blueprint,
                                  std::optional<std::int32_t> source = std::nullopt);

}  // namespace caption::model
