// config/identity.h: what decides the bits of a result, beside the clip and the prompt.
//
// One definition serves the caches and the manifest: the options' own declarations (Affects in
// config/fields.h), the model's files, and the arithmetic. Each name below is a fold over them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/sha256.h"
#include "config/preset.h"

namespace caption::config {

// Names and values, as a manifest holds them.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Names how this process computes: the device with its tier, the numerics revision and the
// libraries that decode video.
Settings arithmetic();

// 16 hexadecimal digits that change when a source that computes does (comments and white space
// aside), or the compiler: kernels, tensors, weights, vision, video, text, sampling, model, engine.
// Derived at build time by scripts/cmake/NumericsRevision.cmake.
std::string_view numerics_revision();

// vision_identity() names what decides the vision tokens of a clip beside its bytes,
// page_identity() what decides a KV page beside its tokens and pixels. `model_hash` is
// CaptionModel::content_hash().
Hash128 vision_identity(const Preset& preset, const Sha256& model_hash);
Hash128 page_identity(const Preset& preset, const Sha256& model_hash);

// Everything that decides a caption: the model, the arithmetic, and every option that affects
// anything but speed. The prompt stands apart: generation.prompt is left out.
Settings caption_settings(const Preset& preset, const Sha256& model_hash);

}  // namespace caption::config
