// engine/internal/validate.h: what must hold of every request for a model; what depends on the
// pages is the scheduler's.
#pragma once

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::engine {

// Throws as Engine::submit() says.
void validate(const Request& request, const model::DecoderSpec& spec);

}  // namespace caption::engine
