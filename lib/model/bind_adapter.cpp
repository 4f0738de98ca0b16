// Finds the parameters of a model that an adapter changes.
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mend_advice.h"
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

// A parameter of a module: the whole weight, or a range of its rows.
struct Place {
  ParameterId id = kNoParameter;
  std::int64_t first_row = 0;
  std::int64_t module_rows = 0;
};

// The matrices of the model by the names of their modules.
using Modules = std::map<std::string, std::vector<Place>, std::less<>>;

void list_module(const ParameterGroup& group, const std::string& name, const Place& place,
                 Modules& modules) {
  if (!name.ends_with(kWeight)) return;
  const std::string stem = name.substr(0, name.size() - kWeight.size());
  for (const char* const outer : outer_names(group.part)) {
    for (const std::string& prefix : group.prefixes) {
      std::string module = outer + prefix + stem;
      if (module.ends_with('.')) module.pop_back();
      if (module.empty()) continue;
      std::vector<Place>& places = modules[module];
      const bool is_known = std::any_of(places.begin(), places.end(), [&](const Place& other) {
        return other.id == place.id || other.first_row == place.first_row;
      });
      if (!is_known) places.push_back(place);
    }
  }
}

Modules list_modules(const Blueprint& blueprint, std::optional<std::int32_t> source) {
  Modules modules;
  for (std::size_t i = 0; i < blueprint.parameters.size(); ++i) {
    const Parameter& parameter = blueprint.parameters[i];
    const ParameterGroup& group = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    if (source.has_value() && group.source != *source) continue;
    if (parameter.role == Role::kVector) continue;
    const auto id = static_cast<ParameterId>(i);
    const std::int64_t rows = parameter.rows();
    list_module(group, parameter.name, {.id = id, .first_row = 0, .module_rows = rows}, modules);
    if (!parameter.other_layout.has_value()) continue;
    const StoredName& other = *parameter.other_layout;
    list_module(group, other.name,
                {.id = id,
                 .first_row = other.first_row,
                 .module_rows = other.tensor_rows == 0 ? rows : other.tensor_rows},
                modules);
  }
  return modules;
}

bool fits(const LoraTerm& term, const Place& place, const Parameter& parameter) {
  return term.b.dim(0) == place.module_rows && term.a.dim(1) == parameter.columns();
}

// The part of the term that changes the parameter.
LoraTerm part_of(const LoraTerm& term, const Place& place, const Parameter& parameter) {
  LoraTerm part = term;
  part.b = term.b.rows(place.first_row, parameter.rows());
  if (term.base.has_value()) part.base = term.base->rows(place.first_row, parameter.rows());
  return part;
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
      const Place& place = first->second.front();
      const Parameter& parameter = blueprint.parameters[static_cast<std::size_t>(place.id)];
      const Part part = blueprint.groups[static_cast<std::size_t>(parameter.group)].part;
      return part == Part::kTower && number >= blueprint.vision->num_layers &&
             fits(term, place, parameter);
    }
    begin = end + 1;
  }
  return false;
}

[[noreturn]] void fail_unknown(const Adapter& adapter, const LoraTerm& term,
                               const Blueprint& blueprint) {
  const bool is_head = term.module == "lm_head" || term.module.ends_with(".lm_head");
  if (is_head && blueprint.decoder.head == blueprint.decoder.embedding) {
    throw Error(
        ErrorCode::kUnavailable,
        adapter.folder().string() + ": adapts " + term.module +
            ", which is the embedding in this model; this build does not support that: merge the "
            "adapter into the weights where it was trained");
  }
  throw Error(
      ErrorCode::kBadModel,
      adapter.folder().string() + ": adapts " + term.module +
          ", which the model does not have; the adapter is another base model's: name that one "
          "with --model");
}

void check_fit(const Adapter& adapter, const LoraTerm& term, const Place& place,
               const Parameter& parameter) {
  if (parameter.role != Role::kDecoderLinear && parameter.role != Role::kEncoderLinear &&
      parameter.role != Role::kHead) {
    throw Error(
        ErrorCode::kUnavailable,
        adapter.folder().string() + ": adapts " + term.module +
            ", which is no linear layer; this build adapts linear layers only: merge the adapter "
            "into the weights where it was trained");
  }
  const Shape weight = {place.module_rows, parameter.columns()};
  const bool is_good_base = !term.base.has_value() || term.base->shape() == weight;
  if (fits(term, place, parameter) && is_good_base) return;
  const std::string found = is_good_base
                                ? " has lora_A " + term.a.shape().to_string() + " and lora_B " +
                                      term.b.shape().to_string()
                                : ".base_layer.weight is " + term.base->shape().to_string();
  throw Error(ErrorCode::kBadModel, adapter.folder().string() + ": " + term.module + found +
                                        ", the model's weight is " + weight.to_string() +
                                        "; the adapter is another base model's: name that one "
                                        "with --model");
}

[[noreturn]] void fail_bound_twice(const Adapter& adapter, const LoraTerm& first,
                                   const LoraTerm& second) {
  fail_bad_file(adapter.folder().string() + ": " + first.module + " and " + second.module +
                " adapt the same weight of the model; the adapter must name it once");
}

}  // namespace

std::vector<BoundTerm> bind_terms(const Adapter& adapter, const Blueprint& blueprint,
                                  std::optional<std::int32_t> source) {
  const Modules modules = list_modules(blueprint, source);
  std::vector<BoundTerm> bound;
  std::map<ParameterId, const LoraTerm*> term_of;
  for (const LoraTerm& term : adapter.terms()) {
    const auto found = modules.find(term.module);
    if (found == modules.end()) {
      if (is_unused_layer(term, modules, blueprint)) continue;
      fail_unknown(adapter, term, blueprint);
    }
    for (const Place& place : found->second) {
      const Parameter& parameter = blueprint.parameters[static_cast<std::size_t>(place.id)];
      check_fit(adapter, term, place, parameter);
      const auto [other, is_new] = term_of.emplace(place.id, &term);
      if (!is_new) fail_bound_twice(adapter, *other->second, term);
      bound.push_back({.term = part_of(term, place, parameter), .parameter = place.id});
    }
  }
  return bound;
}

}  // namespace caption::model
