// kernels/cuda/weight_forms.h: the forms in which a weight [N, K] lies in a GPU's memory.
//
//   rows   [N, K] f32, bf16 or f16 as they are, the first axis may be strided; owned or borrowed.
//          Products and sums are f32 (kernels/cuda/multiply_rows.cu), for exactness.
//   tiles  numbers of 16 bits in the order in which a tensor core takes them:
//            tiles[n / 16][k / 16][lane]   16 bytes: the lane's FragmentA of the features
//                                          n .. n + 15 and the columns k .. k + 15
//                                          (kernels/cuda/primitives.cuh)
//          with zeros beyond the matrix. x is rounded to the tiles' dtype, sums are f32
//          (kernels/cuda/multiply_tiles.cuh).
//   codes  of 8 and 4 bits (kernels/cuda/code_form.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda/gpus.h"
#include "kernels/weight.h"
#include "tensor/tensor.h"

namespace caption::kernels::cuda {

// Whose kernels multiply by the form.
enum class Layout { kRows, kTiles, kCodes };

class DeviceForm : public WeightForm {
 public:
  // Returns the form of a weight on a GPU.
  static const DeviceForm& of(const Weight& weight) {
    return static_cast<const DeviceForm&>(weight.form());
  }
  virtual Layout layout() const = 0;
};

class RowsForm final : public DeviceForm {
 public:
  static const RowsForm& of(const Weight& weight) {
    return static_cast<const RowsForm&>(weight.form());
  }
  explicit RowsForm(ConstView borrowed) : rows_(borrowed) {}
  explicit RowsForm(Tensor owned) : owned_(std::move(owned)), rows_(std::as_const(owned_).view()) {}

  Layout layout() const override { return Layout::kRows; }
  std::int64_t size_bytes() const override {
    return rows_.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(rows_.dtype()));
  }
  bool rounds_input() const override { return false; }
  bool is_borrowed() const override { return owned_.empty(); }
  bool is_like(const WeightForm& other) const override;
  std::string describe() const override;

  ConstView rows() const { return rows_; }

 private:
  Tensor owned_;
  ConstView rows_;
};

// The dtype in which the GPU's tensor cores multiply numbers of 16 bits: bf16, but f16 on Turing,
// which lacks bf16; there numbers beyond 65504 become infinite. An unknown GPU (compute capability
// 0) has bf16.
inline DType dtype_of_products(const Context& context) {
  return kTuring.contains(context.compute_capability) ? DType::kF16 : DType::kBF16;
}

// Tiles in device memory, borrowed.
struct Tiles {
  const void* begin = nullptr;    // aligned to 16 bytes
  DType dtype = DType::kBF16;     // or f16
  std::int64_t num_features = 0;  // N
  std::int64_t num_columns = 0;   // K
};

class TilesForm final : public DeviceForm {
 public:
  static const TilesForm& of(const Weight& weight) {
    return static_cast<const TilesForm&>(weight.form());
  }
  // `memory` holds the tiles; if it is empty, they are borrowed.
  explicit TilesForm(const Tiles& tiles, Tensor memory = {})
      : tiles_(tiles), memory_(std::move(memory)) {}

  Layout layout() const override { return Layout::kTiles; }
  std::int64_t size_bytes() const override;
  bool rounds_input() const override { return true; }
  bool is_borrowed() const override { return memory_.empty(); }
  bool is_like(const WeightForm& other) const override;
  std::string describe() const override;

  const Tiles& tiles() const { return tiles_; }

 private:
  Tiles tiles_;
  Tensor memory_;
};

// Bytes of the tiles of a matrix [num_features, num_columns].
std::size_t tiles_bytes(std::int64_t num_features, std::int64_t num_columns);

// Writes the tiles of `rows` [N, K] f32, bf16 or f16 on the device, which may be strided, rounded
// to `dtype`, bf16 or f16, to `to` in device memory of tiles_bytes(). Throws Error(kInternal) for
// another dtype or rank.
Tiles pack_tiles(Stream& stream, ConstView rows, DType dtype, void* to);

}  // namespace caption::kernels::cuda
