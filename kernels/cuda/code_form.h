// kernels/cuda/code_form.h: codes of 8 and 4 bits (kernels/cuda/codes.h) as the form of a weight.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/codes.h"
#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels::cuda {

class CodesForm final : public DeviceForm {
 public:
  static const CodesForm& of(const Weight& weight) {
    return static_cast<const CodesForm&>(weight.form());
  }
  // `memory` holds the tiles, numbers and rows of `codes`, `order` its column order on the device,
  // if it has one.
  CodesForm(const PackedCodes& codes, Tensor memory, Tensor order, ColumnOrder shared_order)
      : codes_(codes),
        memory_(std::move(memory)),
        order_(std::move(order)),
        shared_order_(std::move(shared_order)) {}

  Layout layout() const override { return Layout::kCodes; }
  std::int64_t size_bytes() const override {
    return static_cast<std::int64_t>(memory_.size_bytes() + order_.size_bytes());
  }
  bool rounds_input() const override { return true; }
  bool is_borrowed() const override { return false; }
  bool is_like(const WeightForm& other) const override;
  std::string describe() const override;

  const PackedCodes& codes() const { return codes_; }

 private:
  PackedCodes codes_;
  Tensor memory_;
  Tensor order_;
  ColumnOrder shared_order_;  // weights may share one
};

// placed_bytes() of kernels/weight.h for the formats that place_quantised() takes.
std::int64_t placed_code_bytes(std::int64_t num_features, std::int64_t num_columns,
                               MatrixFormat format);

}  // namespace caption::kernels::cuda
