#include "config/composed_source.h"

#include <optional>
#include <system_error>

namespace caption::config {
namespace {

std::optional<model::ProjectorKind> projector_kind(ProjectorType type) {
  switch (type) {
    case ProjectorType::kAuto: break;
    case ProjectorType::kMlp: return model::ProjectorKind::kMlp;
    case ProjectorType::kPerceiverResampler: return model::ProjectorKind::kPerceiverResampler;
    case ProjectorType::kCAbstractor: return model::ProjectorKind::kCAbstractor;
  }
  return std::nullopt;
}

std::optional<model::Activation> activation(HiddenAct act) {
  switch (act) {
    case HiddenAct::kAuto: break;
    case HiddenAct::kGelu: return model::Activation::kGelu;
    case HiddenAct::kGeluPytorchTanh: return model::Activation::kGeluTanh;
    case HiddenAct::kQuickGelu: return model::Activation::kQuickGelu;
    case HiddenAct::kRelu: return model::Activation::kRelu;
    case HiddenAct::kSilu: return model::Activation::kSilu;
  }
  return std::nullopt;
}

}  // namespace

model::ComposedSource composed_source(const ModelSection& section,
                                      const std::filesystem::path& preset_folder) {
  std::error_code ignored;
  std::filesystem::path projector = preset_folder / section.projector;
  if (!std::filesystem::exists(projector, ignored)) projector = section.projector;
  model::ComposedSource source;
  source.vision = section.vision;
  source.projector = projector;
  source.llm = section.llm;
  source.vision_feature_layers = section.vision_feature_layer;
  source.pool_stride = section.pooling;
  source.prompt = section.prompt;
  source.system_template = section.system_template;
  source.example_end = section.example_end;
  source.projector_options = {.kind = projector_kind(section.projector_type),
                              .activation = activation(section.projector_hidden_act),
                              .tokens = section.projector_tokens,
                              .head_dim = section.projector_head_dim};
  source.tensor_names = section.tensor_names;
  return source;
}

}  // namespace caption::config
