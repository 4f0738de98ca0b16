// model/adapter_load.h: the memory and the arithmetic that adapters add to a model, for plans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "backend/context.h"
#include "model/blueprint.h"
#include "model/caption_model.h"
#include "weights/format.h"

namespace caption::model {

// What the decoder computes beside its weights. An adapter that is merged into them adds nothing.
struct AdapterLoad {
  std::int64_t size_bytes = 0;         // the part of CaptionModel::weight_bytes()
  std::int64_t max_rank = 0;           // for decoder_scratch_bytes()
  double multiply_adds_per_token = 0;  // counts the adapters of every request and the largest other
};

// An adapter inside the folder of a model or of its part; `source` is the index of the part's
// weight file (ParameterGroup::source), not set for a model of one folder.
struct InnerAdapter {
  std::filesystem::path folder;
  std::optional<std::int32_t> source = std::nullopt;
};

// Reads the adapters' files, as open_model() does. Throws as open_model() for an adapter that is
// broken, not supported or another base model's.
AdapterLoad measure_adapters(const Context& context, const Blueprint& blueprint,
                             weights::WeightFormat format, const std::vector<InnerAdapter>& inner,
                             const std::vector<AdapterSource>& adapters);

}  // namespace caption::model
