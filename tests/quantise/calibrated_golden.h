// tests/quantise/calibrated_golden.h: tests/golden/calibrated.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tensor/tensor.h"
#include "weights/checkpoint.h"

namespace caption::quantise {

struct CalibratedGolden {
  std::string name;
  JsonObject options;
  weights::Checkpoint file;

  ConstView tensor(const std::string& tensor) const { return file.find(tensor).value(); }
  bool has(const std::string& tensor) const { return file.find(tensor).has_value(); }
  template <class T>
  std::span<const T> numbers(const std::string& tensor) const {
    const ConstView view = this->tensor(tensor);
    return {view.as<T>(), static_cast<std::size_t>(view.num_elements())};
  }
  // inputs [T, K] as f32.
  Tensor inputs() const {
    const ConstView stored = tensor("inputs");
    Tensor inputs(DType::kF32, stored.shape());
    for (std::int64_t i = 0; i < stored.num_elements(); ++i) {
      inputs.as<float>()[i] = to_float(stored.as<BF16>()[i]);
    }
    return inputs;
  }
};

inline std::vector<CalibratedGolden> read_calibrated_goldens(const std::string& method) {
  const std::filesystem::path folder =
      std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/calibrated";
  const JsonObject cases = JsonObject::open(folder / "cases.json", ErrorCode::kBadModel);
  std::vector<CalibratedGolden> goldens;
  for (const std::string& name : cases.keys()) {
    JsonObject options = cases.get_object(name).value();
    if (options.require_string("method") != method) continue;
    goldens.push_back({.name = name,
                       .options = std::move(options),
                       .file = weights::Checkpoint::open(folder / (name + ".safetensors"))});
  }
  return goldens;
}

}  // namespace caption::quantise
