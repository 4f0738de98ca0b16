// model/read_blueprint.h: reads blueprints from configuration files. Weights are not read; a
// composed model's projector file and a quantised checkpoint are read only as to their headers and
// what open_source() needs.
//
// Counts and bytes agree with those of open_model() and Decoder::scratch_bytes() for the same model
// (tests/plan/plan_test.cpp).
#pragma once

#include <filesystem>

#include "model/blueprint.h"
#include "model/caption_model.h"

namespace caption::model {

// What a path names: a whole model, or a part of a composed one, which GGUF files of a whole model
// can serve as.
enum class ModelPart { kWhole, kVision, kProjector, kText };

// Reads config.json of a model's folder, of a decoder or of a vision tower, or what stands in its
// place in GGUF files; for a tower that takes frames of any size also the preprocessor's file,
// which has the limits of their size.
// Throws Error(kBadModel) for a missing or invalid one; kUnavailable for another model_type or for
// an option that this build does not support.
Blueprint read_blueprint(const std::filesystem::path& folder, ModelPart part = ModelPart::kWhole);

// Composes tower.vision, with all its layers, and text.text, both of which must have values; a
// projector whose file does not exist is assumed to be linear-gelu-linear. Throws Error(kBadModel)
// when the tower has no layer in source.vision_feature_layers; for the projector's file as
// Checkpoint::open(), and kUnavailable when its layers are of another structure.
Blueprint compose_blueprint(const Blueprint& tower, const Blueprint& text,
                            const ComposedSource& source);

}  // namespace caption::model
