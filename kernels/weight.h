// kernels/weight.h: the weight of a dense layer, placed on a device in the form that its kernels
// read, once when a model is loaded. The form (its layout, padding and rounding) is private to the
// kernels of the device; on the CPU see kernels/cpu/packed_weight.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "backend/stream.h"
#include "tensor/matrix_format.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// A device's form of a weight. Immutable.
class WeightForm {
 public:
  virtual ~WeightForm() = default;
  virtual std::int64_t size_bytes() const = 0;
  virtual bool rounds_input() const = 0;
  virtual bool is_borrowed() const = 0;
  // Whether one call may multiply weights of both forms.
  virtual bool is_like(const WeightForm& other) const = 0;
  virtual std::string describe() const = 0;  // "panels of 4 bits in groups of 128 columns"
};

// A matrix [N, K]. Moves, does not copy. Immutable after construction, so any number of threads may
// read it.
class Weight {
 public:
  Weight() = default;
  // Borrows `rows` [N, K] f32, bf16 or f16, the first axis may be strided, on the device of the
  // view. Implicit, because a plain matrix is a valid weight. Throws Error(kInternal) for another
  // rank or dtype.
  Weight(ConstView rows);  // NOLINT(google-explicit-constructor)
  Weight(std::int64_t num_features, std::int64_t num_columns, Device device,
         std::unique_ptr<const WeightForm> form)
      : num_features_(num_features),
        num_columns_(num_columns),
        device_(device),
        form_(std::move(form)) {}

  bool empty() const { return form_ == nullptr; }
  std::int64_t num_features() const { return num_features_; }  // N
  std::int64_t num_columns() const { return num_columns_; }    // K
  Device device() const { return device_; }
  const WeightForm& form() const { return *form_; }

  // Bytes of the weight as it is held, with padding, scales and offsets.
  std::int64_t size_bytes() const { return empty() ? 0 : form_->size_bytes(); }
  // Whether products round the input of the layer, to bf16 or to 8 bits.
  bool rounds_input() const { return !empty() && form_->rounds_input(); }
  // Whether the matrix that the weight was made from must outlive it.
  bool is_borrowed() const { return !empty() && form_->is_borrowed(); }

 private:
  std::int64_t num_features_ = 0;
  std::int64_t num_columns_ = 0;
  Device device_ = Device::kCpu;
  std::unique_ptr<const WeightForm> form_;
};

// The rows [first, first + count) of a quantised matrix, returned by functions that several threads
// call at a time.
class QuantisedRows {
 public:
  using Read = std::function<QuantisedMatrix(std::int64_t first, std::int64_t count)>;

  // `read` returns codes in QuantisedMatrix::codes.
  template <class Function>
  requires std::is_invocable_r_v<QuantisedMatrix, Function, std::int64_t, std::int64_t>
  QuantisedRows(Function read)  // NOLINT(google-explicit-constructor)
      : read_(std::move(read)), borrow_(read_) {}
  // `borrow` returns the same rows, any number at a time if they are words, but may leave the codes
  // where they are (QuantisedMatrix::file_codes), as long as the matrix is being placed.
  QuantisedRows(Read read, Read borrow) : read_(std::move(read)), borrow_(std::move(borrow)) {}

  QuantisedMatrix operator()(std::int64_t first, std::int64_t count) const {
    return read_(first, count);
  }
  QuantisedMatrix borrow(std::int64_t first, std::int64_t count) const {
    return borrow_(first, count);
  }

 private:
  Read read_;
  Read borrow_;
};

// Place a matrix of the host on the stream's device, and have read it when they return. The weight
// is complete then, or, on a GPU whose stream has an uploader, at that one's next finish(). All
// throw Error(kInternal) for a matrix that is empty or has another rank or dtype; kOutOfMemory.
//
// `rows` [N, K] f32, bf16 or f16: its numbers as they are. Borrowed on the CPU.
Weight place_stored(Stream& stream, ConstView rows);
// `rows` as above: its numbers rounded to bf16, to nearest even, on a GPU of compute capability 7.5
// to f16. Borrowed on the CPU when they are bf16 and the kernels prefer rows.
Weight place_bf16(Stream& stream, ConstView rows);
// `rows` returns at most 512 rows at a time of a matrix [num_features, K] of e4m3 with a scale for
// each row and group of columns, where takes_e4m3(): its numbers as they are. Activations are
// rounded to bf16, products and sums of a group's columns are f32 and are then scaled. What reading
// rows with a NaN throws is passed on.
Weight place_e4m3(Stream& stream, std::int64_t num_features, const QuantisedRows& rows);
// `rows` returns at most 128 rows at a time, 512 where they are borrowed, of a matrix
// [num_features, K] in `format`:
// kInt8Row (8-bit codes with a scale per row), kE4M3Row (the same of e4m3, on GPUs whose tensor
// cores multiply it; kUnavailable on others), kInt4A8 (with steps and bases, in groups of at most
// 128 columns), or another that is held as codes, in groups of an even number of columns, at most
// 128 or a multiple of it; a group of all columns may have any.
Weight place_quantised(Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows);

// Weight::size_bytes() of a matrix [num_features, num_columns] placed in `format`. `stored` is the
// dtype that kStored means.
std::int64_t placed_bytes(const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored);
// Weight::size_bytes() of a matrix of codes placed by place_e4m3(), or by place_quantised() in a
// format other than kInt8Row and kE4M3Row.
std::int64_t placed_bytes(const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes);
// Returns whether place_e4m3() takes a matrix of num_columns columns. The CPU and the mirror take
// groups that have an even number of columns up to 128, have a multiple of 128, or are whole rows;
// GPUs take none.
bool takes_e4m3(const Context& context, std::int64_t num_columns, const CodeLayout& codes);
// Weight::rounds_input() of a matrix placed in `format`.
bool rounds_input(const Context& context, MatrixFormat format);

namespace impl {
std::unique_ptr<const WeightForm> borrow_rows(Cpu device, ConstView rows);
std::unique_ptr<const WeightForm> borrow_rows(Cuda device, ConstView rows);
Weight place_stored(Cpu device, Stream& stream, ConstView rows);
Weight place_stored(Cuda device, Stream& stream, ConstView rows);
Weight place_bf16(Cpu device, Stream& stream, ConstView rows);
Weight place_bf16(Cuda device, Stream& stream, ConstView rows);
Weight place_e4m3(Cpu device, Stream& stream, std::int64_t num_features, const QuantisedRows& rows);
Weight place_quantised(Cpu device, Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows);
Weight place_quantised(Cuda device, Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows);
std::int64_t placed_bytes(Cpu device, const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored);
std::int64_t placed_bytes(Cuda device, const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored);
std::int64_t placed_bytes(Cpu device, const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes);
std::int64_t placed_bytes(Cuda device, const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes);
bool takes_e4m3(Cpu device, std::int64_t num_columns, const CodeLayout& codes);
bool rounds_input(Cpu device, const Context& context, MatrixFormat format);
bool rounds_input(Cuda device, const Context& context, MatrixFormat format);
}  // namespace impl

}  // namespace caption::kernels
