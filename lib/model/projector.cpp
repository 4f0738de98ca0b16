#include "model/internal/projector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"

namespace caption::model {
namespace {

constexpr std::string_view kWeight = "weight";
constexpr std::string_view kBias = "bias";

std::string_view kind_name(ProjectorKind kind) {
  switch (kind) {
    case ProjectorKind::kMlp: return "mlp";
    case ProjectorKind::kPerceiverResampler: return "perceiver_resampler";
    case ProjectorKind::kCAbstractor: return "c_abstractor";
  }
  return "?";
}

ProjectorKind find_kind(const ProjectorFile& file, const ProjectorOptions& options) {
  const bool is_perceiver = find_perceiver(file).has_value();
  const bool is_c_abstractor = find_c_abstractor(file).has_value();
  if (!options.kind) {
    if (is_perceiver) return ProjectorKind::kPerceiverResampler;
    return is_c_abstractor ? ProjectorKind::kCAbstractor : ProjectorKind::kMlp;
  }
  const bool is_missing = (*options.kind == ProjectorKind::kPerceiverResampler && !is_perceiver) ||
                          (*options.kind == ProjectorKind::kCAbstractor && !is_c_abstractor);
  if (is_missing) {
    throw Error(
        ErrorCode::kBadModel,
        file.path() + ": model.projector_type is " + std::string(kind_name(*options.kind)) +
            ", but the file has no tensor " +
            (*options.kind == ProjectorKind::kPerceiverResampler ? "latents"
                                                                 : "net.0.b1.conv1.conv.weight") +
            "; model.tensor_names can map the names that it has");
  }
  return *options.kind;
}

// Whether `a` comes before `b` when runs of digits count as numbers: "2." before "10.".
bool is_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  for (; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) continue;
  // From the beginning of the number in which the names differ.
  while (i > 0 && is_digit(a[i - 1])) --i;
  const auto digits = [&](std::string_view name) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    return end - i;
  };
  if (digits(a) != digits(b) && digits(a) > 0 && digits(b) > 0) return digits(a) < digits(b);
  return a < b;
}

// An option that the projector does not read would change nothing without a word.
void refuse_unread(const ProjectorFile& file, const ProjectorOptions& options, ProjectorKind kind,
                   const VisionSpec& vision) {
  const auto refuse = [&](const std::string& key, const std::string& why) {
    throw Error(ErrorCode::kBadPreset, file.path() + ": model." + key + " is given, and the " +
                                           "projector is of projector_type " +
                                           std::string(kind_name(kind)) + why + "; leave it out");
  };
  if (options.tokens > 0 && kind != ProjectorKind::kCAbstractor) {
    refuse("projector_tokens", "; only c_abstractor reads it");
  }
  if (options.head_dim > 0 && kind != ProjectorKind::kPerceiverResampler) {
    refuse("projector_head_dim", "; only perceiver_resampler reads it");
  }
  const bool has_activation =
      kind == ProjectorKind::kPerceiverResampler || vision.projector.size() > 1;
  if (options.activation && !has_activation) {
    refuse("projector_hidden_act", " with one linear layer; an activation is between two of them");
  }
}

// Without a file a plan assumes two layers.
ProjectorNames assume_mlp(const ProjectorOptions& options, std::int64_t text_hidden,
                          VisionSpec& vision) {
  if (options.kind.value_or(ProjectorKind::kMlp) != ProjectorKind::kMlp) {
    throw Error(ErrorCode::kBadModel,
                "model.projector: the file does not exist, and the dimensions of a " +
                    std::string(kind_name(*options.kind)) +
                    " are known from its tensors alone; name a file that does");
  }
  vision.projector = {{.out = text_hidden, .in = vision.merged_columns()},
                      {.out = text_hidden, .in = text_hidden}};
  return {.prefix = "", .stems = {"0.", "2."}};
}

}  // namespace

ProjectorFile::ProjectorFile(const weights::Source& source) : path_(source.name()) {
  for (const std::string& name : source.names()) tensors_[name] = source.shape(name).value();
}

Shape ProjectorFile::require(std::string_view name, int rank) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    fail_bad_file(path_ + ": tensor " + std::string(name) + " is missing");
  }
  if (found->second.rank() == rank && found->second.num_elements() > 0) return found->second;
  fail_bad_file(path_ + ": tensor " + std::string(name) + " has shape " +
                found->second.to_string() + "; one of " + std::to_string(rank) +
                " axes was expected");
}

LinearSpec ProjectorFile::require_linear(const std::string& stem) const {
  const Shape weight = require(stem + std::string(kWeight), 2);
  return {.out = weight[0], .in = weight[1], .has_bias = has(stem + std::string(kBias))};
}

// The names of the layers differ between authors ("weight"; "0.weight" and "2.weight";
// "linear_1.weight" and "linear_2.weight"): matrices are linear layers in the order of their names.
ProjectorNames read_mlp(const ProjectorFile& file, const std::string& prefix,
                        std::int64_t text_hidden, VisionSpec& vision) {
  ProjectorNames names{.prefix = prefix, .stems = {}};
  std::vector<std::string> biases;
  for (const auto& [name, shape] : file.tensors()) {
    if (!name.starts_with(prefix)) continue;
    const bool is_matrix = name.ends_with(kWeight) && shape.rank() == 2;
    const bool is_vector = name.ends_with(kBias) && shape.rank() == 1;
    if (!is_matrix && !is_vector) {
      throw Error(ErrorCode::kUnavailable,
                  file.path() + ": tensor " + name +
                      " belongs to no linear layer; the projectors of this build are linear layers "
                      "with an activation between every two, perceiver_resampler and c_abstractor, "
                      "whose names model.tensor_names can map");
    }
    const std::size_t suffix = is_matrix ? kWeight.size() : kBias.size();
    (is_matrix ? names.stems : biases).push_back(name.substr(0, name.size() - suffix));
  }
  for (const std::string& bias : biases) {
    if (std::find(names.stems.begin(), names.stems.end(), bias) != names.stems.end()) continue;
    fail_bad_file(file.path() + ": tensor " + bias + "bias has no weight beside it");
  }
  if (names.stems.empty()) {
    fail_bad_file(file.path() + ": holds no linear layer" +
                  (prefix.empty() ? ", and so no projector" : " under " + prefix));
  }
  std::sort(names.stems.begin(), names.stems.end(), is_before);
  std::int64_t in =
      vision.c_abstractor ? vision.c_abstractor->after.back().out : vision.merged_columns();
  vision.projector.clear();
  for (const std::string& stem : names.stems) {
    const bool is_last = &stem == &names.stems.back();
    const LinearSpec found = file.require_linear(stem);
    vision.projector.push_back(
        {.out = is_last ? text_hidden : found.out, .in = in, .has_bias = found.has_bias});
    in = found.out;
  }
  return names;
}

ProjectorNames read_projector(const ProjectorFile* file, const ProjectorOptions& options,
                              std::int64_t text_hidden, VisionSpec& vision) {
  vision.projector_activation = options.activation.value_or(Activation::kGelu);
  if (file == nullptr) return assume_mlp(options, text_hidden, vision);
  const ProjectorKind kind = find_kind(*file, options);
  const auto read = [&] {
    switch (kind) {
      case ProjectorKind::kPerceiverResampler:
        return read_perceiver(*file, options, text_hidden, vision);
      case ProjectorKind::kCAbstractor:
        return read_c_abstractor(*file, options, text_hidden, vision);
      case ProjectorKind::kMlp: break;
    }
    return read_mlp(*file, "", text_hidden, vision);
  };
  ProjectorNames names = read();
  refuse_unread(*file, options, kind, vision);
  return names;
}

void add_found_projector(Blueprint& blueprint, const VisionSpec& vision,
                         const ProjectorNames& names, std::int32_t source) {
  if (vision.perceiver) add_perceiver(blueprint, vision, names, source);
  if (vision.c_abstractor) add_c_abstractor(blueprint, vision, names, source);
  if (vision.projector.empty()) return;
  add_projector(blueprint, vision, names.stems, {""}, source);
}

}  // namespace caption::model
