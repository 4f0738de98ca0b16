// model/internal/text_model.h: the parameters of a language model alone.
#pragma once

#include "model/blueprint.h"
#include "model/decoder.h"

namespace caption::model {

// Names as transformers saves a ...ForCausalLM, or its model without a head.
Blueprint text_model_blueprint(const DecoderSpec& text);

}  // namespace caption::model
