#include "quantise/internal/layer_solver.h"

#include <cmath>

#include "base/error.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {

void run_layer(const LayerWeights& weights, HiddenStates& hidden) {
  const model::DecoderLayerViews views = weights.views();
  hidden.attend(views);
  hidden.add_attention(views);
  hidden.add_mlp(views);
}

std::int64_t run_work(const HiddenStates& hidden) {
  return hidden.attend_work() + hidden.o_work() + hidden.mlp_work();
}

Bytes encode_numbers(ConstView numbers, DType dtype) {
  Bytes bytes =
      zero_bytes(numbers.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(dtype)));
  dispatch_float(dtype, [&](auto tag) {
    auto* const to = elements_of<decltype(tag)>(bytes);
    for (std::int64_t i = 0; i < numbers.num_elements(); ++i) {
      to[i] = from_float<decltype(tag)>(numbers.as<float>()[i]);
      if (!std::isfinite(to_float(to[i]))) {
        throw Error(ErrorCode::kBadModel, "the scales of AWQ make a number that " +
                                              std::string(dtype_name(dtype)) + " does not hold" +
                                              kWithoutCalibration);
      }
    }
  });
  return bytes;
}

}  // namespace caption::quantise
