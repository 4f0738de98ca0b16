// engine/internal/validate.h: checks of a request against the model. The scheduler checks it
// against the pages.
#pragma once

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::engine {

// Throws as documented at Engine::submit().
void validate(const Request& request, const model::DecoderSpec& spec, Device device);

// Throws Error(kInternal) for an adapter that the decoder does not have, or without the identity of
// its pages.
void validate_adapter(const Request& request, std::int64_t num_adapters);

}  // namespace caption::engine
