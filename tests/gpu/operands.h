// tests/gpu/operands.h: operands that are functions of their indices, the same with every standard
// library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "kernels/convert.h"
#include "kernels/cuda/gpus.h"
#include "kernels/weight.h"
#include "tensor/copy.h"
#include "tensor/e4m3.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::testing {

// 32 well-mixed bits of two numbers (the finaliser of MurmurHash3, twice).
inline std::uint32_t mixed(std::uint32_t seed, std::uint64_t index) {
  auto bits = static_cast<std::uint32_t>(index) ^ (seed * 0x9e3779b9U) ^
              static_cast<std::uint32_t>(index >> 32U) * 0x85ebca6bU;
  for (int round = 0; round < 2; ++round) {
    bits = (bits ^ bits >> 16U) * 0x85ebca6bU;
    bits = (bits ^ bits >> 13U) * 0xc2b2ae35U;
    bits ^= bits >> 16U;
  }
  return bits;
}

// Numbers in [-1, 1), multiples of 2^-23.
inline Tensor numbers(const Shape& shape, std::uint32_t seed) {
  Tensor tensor(DType::kF32, shape);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const std::uint32_t bits = mixed(seed, static_cast<std::uint64_t>(i)) >> 8U;
    tensor.as<float>()[i] = static_cast<float>(bits) * 0x1p-23F - 1.0F;
  }
  return tensor;
}

inline Tensor numbers_of(DType dtype, const Shape& shape, std::uint32_t seed) {
  Tensor wide = numbers(shape, seed);
  if (dtype == DType::kF32) return wide;
  ThreadPool pool(1);
  Stream host(pool, CpuTier::kReference);
  Tensor rounded(dtype, shape);
  kernels::convert(host, std::as_const(wide).view(), rounded.view());
  return rounded;
}

inline Tensor indices(const std::vector<std::int32_t>& values) {
  Tensor tensor(DType::kI32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}

inline Tensor to_device(Stream& stream, const Tensor& tensor) {
  return copy_to(stream, stream.device(), tensor.view());
}
inline Tensor to_host(Stream& stream, const Tensor& tensor) {
  return copy_to(stream, Device::kCpu, tensor.view());
}

// The forms of a weight that the CUDA kernels multiply.
enum class Form { kRowsF32, kTiles, kInt8, kInt8Row, kInt4, kInt4InOrder, kInt4A8, kNf4, kE4M3Row };
struct NamedForm {
  Form form;
  const char* name;
  kernels::cuda::Gpus gpus = kernels::cuda::kAllGpus;
};
inline constexpr NamedForm kForms[] = {{Form::kRowsF32, "f32"},
                                       {Form::kTiles, "16 bits"},
                                       {Form::kInt8, "int8"},
                                       {Form::kInt8Row, "w8a8"},
                                       {Form::kInt4, "int4"},
                                       {Form::kInt4InOrder, "int4 in another order"},
                                       {Form::kInt4A8, "w4a8"},
                                       {Form::kNf4, "nf4"},
                                       {Form::kE4M3Row, "fp8", kernels::cuda::kGpusOfE4M3}};

// Rows [first, first + count) of the codes of a form, with K columns.
inline QuantisedMatrix codes_of(Form form, std::int64_t first, std::int64_t count, std::int64_t k) {
  const bool is_e4m3 = form == Form::kE4M3Row;
  const bool has_row_scales = is_e4m3 || form == Form::kInt8Row;
  QuantisedMatrix matrix;
  matrix.num_columns = k;
  matrix.group_columns = has_row_scales ? k : form == Form::kNf4 ? 64 : 128;
  matrix.has_e4m3_codes = is_e4m3;
  const std::int64_t groups = matrix.num_groups();
  // Calls set(i, random bits) for the elements of a table with so many columns.
  const auto fill = [&](std::int64_t columns, std::uint32_t seed, auto set) {
    for (std::int64_t i = 0; i < count * columns; ++i) {
      set(i, mixed(seed, static_cast<std::uint64_t>(first * columns + i)));
    }
  };
  const auto between_0_and_1 = [](std::uint32_t bits) {
    return static_cast<float>(bits >> 8U) * 0x1p-24F;
  };
  if (has_row_scales || form == Form::kInt8) {
    matrix.codes = Tensor(DType::kI8, {count, k});
    auto* const codes = matrix.codes.as<std::int8_t>();
    fill(k, 1, [&](std::int64_t i, std::uint32_t bits) {
      const auto number = static_cast<std::int8_t>(static_cast<int>(bits % 255) - 127);
      const auto code = static_cast<std::uint8_t>(bits);
      codes[i] = static_cast<std::int8_t>(!is_e4m3 ? number : is_nan_e4m3(code) ? code ^ 1U : code);
    });
  } else {
    matrix.codes = Tensor(DType::kU8, {count, (k + 1) / 2});
    auto* const codes = matrix.codes.as<std::uint8_t>();
    fill((k + 1) / 2, 2,
         [&](std::int64_t i, std::uint32_t bits) { codes[i] = static_cast<std::uint8_t>(bits); });
  }
  if (form == Form::kInt4A8) {
    matrix.steps = Tensor(DType::kU8, {count, groups});
    matrix.bases = Tensor(DType::kU8, {count, groups});
    auto* const steps = matrix.steps.as<std::uint8_t>();
    auto* const bases = matrix.bases.as<std::uint8_t>();
    fill(groups, 3, [&](std::int64_t i, std::uint32_t bits) {
      steps[i] = static_cast<std::uint8_t>(1 + bits % 17);
      bases[i] = static_cast<std::uint8_t>((bits >> 8U) % (256U - 15U * steps[i]));
    });
  }
  const std::int64_t scales_per_row = form == Form::kInt4A8 ? 1 : groups;
  matrix.scales = Tensor(DType::kF32, {count, scales_per_row});
  auto* const scales = matrix.scales.as<float>();
  fill(scales_per_row, 4, [&](std::int64_t i, std::uint32_t bits) {
    scales[i] = 0.01F + 0.01F * between_0_and_1(bits);
  });
  if (form == Form::kInt4 || form == Form::kInt4InOrder) {
    matrix.offsets = Tensor(DType::kF32, {count, groups});
    auto* const offsets = matrix.offsets.as<float>();
    fill(groups, 5, [&](std::int64_t i, std::uint32_t bits) {
      offsets[i] = 0.1F * between_0_and_1(bits) - 0.05F;
    });
  }
  for (int i = 0; i < 16; ++i) {
    const auto step = static_cast<float>(i - 8);
    matrix.codebook[static_cast<std::size_t>(i)] =
        form == Form::kNf4 ? step * step * step / 512 : step;
  }
  return matrix;
}

inline kernels::Weight place(Stream& stream, Form form, std::int64_t n, std::int64_t k) {
  if (form == Form::kRowsF32) return kernels::place_stored(stream, numbers({n, k}, 11).view());
  if (form == Form::kTiles) return kernels::place_bf16(stream, numbers({n, k}, 11).view());
  ColumnOrder order;
  if (form == Form::kInt4InOrder) {
    std::vector<std::int32_t> columns(static_cast<std::size_t>(k));
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = columns.size() - 1; i > 0; --i) {
      std::swap(columns[i], columns[mixed(6, i) % (i + 1)]);
    }
    order = std::make_shared<const std::vector<std::int32_t>>(std::move(columns));
  }
  MatrixFormat format = MatrixFormat::kInt4;
  if (form == Form::kInt8) format = MatrixFormat::kInt8;
  if (form == Form::kInt8Row) format = MatrixFormat::kInt8Row;
  if (form == Form::kInt4A8) format = MatrixFormat::kInt4A8;
  if (form == Form::kNf4) format = MatrixFormat::kNf4;
  if (form == Form::kE4M3Row) format = MatrixFormat::kE4M3Row;
  return kernels::place_quantised(stream, format, n, [&](std::int64_t first, std::int64_t count) {
    QuantisedMatrix matrix = codes_of(form, first, count, k);
    matrix.column_order = order;
    return matrix;
  });
}

}  // namespace caption::testing
