// config/identity.h: hashes and lists of everything besides the clip and the prompt that determines
// a result.
//
// The caches and the manifest share this definition. It consists of the options' declarations
// (Affects in config/fields.h), the model's files and the arithmetic.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/context.h"
#include "base/hash.h"
#include "base/sha256.h"
#include "config/preset.h"
#include "model/caption_model.h"

namespace caption::config {

// Pairs of name and value, in the form of a manifest.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Describes how results are computed: the device with its CPU tier, the numerics revision and the
// libraries that decode video.
Settings arithmetic(const Context& context);

// Returns 16 hexadecimal digits that change with the compiler and with the sources that affect
// results (except comments and white space): kernels, tensors, weights, vision, video, text,
// sampling, model, engine. Generated at build time by scripts/cmake/NumericsRevision.cmake.
std::string_view numerics_revision();

// vision_identity() hashes what determines the vision tokens of a clip besides its bytes,
// page_identity() what determines a KV page besides its tokens and pixels. `model_hash` is
// CaptionModel::content_hash().
Hash128 vision_identity(const Context& context, const Preset& preset, const Sha256& model_hash);
Hash128 page_identity(const Context& context, const Preset& preset, const Sha256& model_hash);
// The identity of the pages of requests that choose an adapter with this content
// (model::NamedAdapter).
Hash128 adapter_page_identity(const Hash128& page_identity, const Sha256& adapter);

// Returns everything that determines a caption: the model, the adapters that captions may choose,
// the arithmetic, and all options that do not affect only speed, except those without effect beside
// the others; where an option is `auto`, the value that it stands for (comparable_settings.h). The
// conversation (generation.prompt, generation.system, generation.examples) is excluded because it
// is recorded separately. quantization.weights is no kAuto.
Settings caption_settings(const Context& context, const Preset& preset, const Sha256& model_hash,
                          const std::vector<model::NamedAdapter>& adapters = {});

}  // namespace caption::config
