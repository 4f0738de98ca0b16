// Finds the parameters of a model that an adapter changes.
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/internal/adapter.h"

namespace caption::model {
namespace {

constexpr std::string_view kWeight = "weight";

// Names under which training scripts hold the parts of a composed model, before the part's own
// module names.
std::vector<const char*> outer_names(Part part) {
  switch (part) {
    case Part::kTower: return {"", "vision_tower.", "vision."};
    case Part::kProjector: return {"", "projector.", "multi_modal_projector.", "mm_projector."};
    case Part::kDecoder:
    case Part::kHead: return {"", "llm.", "language_model."};
  }
  return {""};
}

using Modules = std::map<std::string, ParameterId, std::less<>>;

// The matrices of the model by the names of their modules.
Modules list_modules(const Blueprint& blueprint, std::optional<std::int32_t> source) {
  Modules modules;
  for (std::size_t id = 0; id < blueprint.parameters.size(); ++id) {
    const Parameter& parameter = blueprint.parameters[id];
    const ParameterGroup& group = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    if (source.has_value() && group.source != *source) continue;
    if (parameter.role == Role::kVector || !parameter.name.ends_with(kWeight)) continue;
    const std::string stem = parameter.name.substr(0, parameter.name.size() - kWeight.size());
    for (const char* const outer : outer_names(group.part)) {
      for (const std::string& prefix : group.prefixes) {
        std::string module = outer + prefix + stem;
        if (module.ends_with('.')) module.pop_back();
        if (!module.empty()) modules.emplace(std::move(module), static_cast<ParameterId>(id));
      }
    }
  }
  return modules;
}

bool fits(const LoraTerm& term, const Parameter& parameter) {
  return term.b.dim(0) == parameter.rows() && term.a.dim(1) == parameter.columns();
}

// Whether the module is one of a layer of the vision tower behind the last that runs. Its name is
// then that of a module of layer 0 with another number.
bool is_unused_layer(const LoraTerm& term, const Modules& modules, const Blueprint& blueprint) {
  const std::string& module = term.module;
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(module.data() + begin, module.data() + end, number);
    if (error == std::errc() && stop == module.data() + end) {
      const auto first = modules.find(module.substr(0, begin) + "0" + module.substr(end));
      if (first == modules.end()) return false;
      const Parameter& parameter = blueprint.parameters[static_cast<std::size_t>(first->second)];
      const Part part = blueprint.groups[static_cast<std::size_t>(parameter.group)].part;
      return part == Part::kTower && number >= blueprint.vision->num_layers &&
             fits(term, parameter);
    }
    begin = end + 1;
  }
  return false;
}

[[noreturn]] void fail_unknown(const Adapter& adapter, const LoraTerm& term,
                               const Blueprint& blueprint) {
  const bool is_head = term.module == "lm_head" || term.module.ends_with(".lm_head");
  if (is_head && blueprint.decoder.head == blueprint.decoder.embedding) {
    throw Error(ErrorCode::kUnavailable,
                adapter.folder().string() + ": adapts " + term.module +
                    ", which is the embedding in this model; this build does not support that");
  }
  throw Error(ErrorCode::kBadModel,
              adapter.folder().string() + ": adapts " + term.module +
                  ", which the model does not have; the adapter is another base model's");
}

void check_fit(const Adapter& adapter, const LoraTerm& term, const Parameter& parameter) {
  if (parameter.role != Role::kDecoderLinear && parameter.role != Role::kEncoderLinear &&
      parameter.role != Role::kHead) {
    throw Error(ErrorCode::kUnavailable,
                adapter.folder().string() + ": adapts " + term.module +
                    ", which is no linear layer; this build adapts linear layers only");
  }
  if (fits(term, parameter)) return;
  throw Error(ErrorCode::kBadModel, adapter.folder().string() + ": " + term.module +
                                        " has lora_A " + term.a.shape().to_string() +
                                        " and lora_B " + term.b.shape().to_string() +
                                        ", the model's weight is " +
                                        Shape({parameter.rows(), parameter.columns()}).to_string() +
                                        "; the adapter is another base model's");
}

}  // namespace

std::vector<BoundTerm> bind_terms(const Adapter& adapter, const Blueprint& blueprint,
                                  std::optional<std::int32_t> source) {
  const Modules modules = list_modules(blueprint, source);
  std::vector<BoundTerm> bound;
  for (const LoraTerm& term : adapter.terms()) {
    const auto found = modules.find(term.module);
    if (found == modules.end()) {
      if (is_unused_layer(term, modules, blueprint)) continue;
      fail_unknown(adapter, term, blueprint);
    }
    check_fit(adapter, term, blueprint.parameters[static_cast<std::size_t>(found->second)]);
    bound.push_back({.term = &term, .parameter = found->second});
  }
  return bound;
}

}  // namespace caption::model
