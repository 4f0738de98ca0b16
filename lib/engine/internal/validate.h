// engine/internal/validate.h: checks of a request against the model. The scheduler checks it
// against the pages.
#pragma once

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::engine {

// Throws as documented at Engine::submit().
void validate(const Request& request, const model::DecoderSpec& spec, Device device);

}  // namespace caption::engine
