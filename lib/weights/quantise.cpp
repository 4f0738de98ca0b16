#include "weights/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"

namespace caption::weights {
namespace {

// Source: arXiv:2305.14314, appendix E.
constexpr std::array<float, 16> kNf4Values = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// A sign, two bits of exponent and one of mantissa, divided by the largest number.
constexpr std::array<float, 16> kFp4Values = {
    0.0F, 0.0625F / 12,  8.0F / 12,  1.0F,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
    0.0F, -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F,
};

// The code of a number is the count of midpoints below it. The midpoints are those of bitsandbytes
// (csrc/kernels.cu, dQuantizeNF4); four of them differ by one ulp from the f32 means of
// neighbouring values.
constexpr std::array<float, 15> kNf4Midpoints = {
    -0.8480964004993439F,  -0.6106329262256622F,  -0.4599952697753906F,   -0.33967943489551544F,
    -0.23460740596055984F, -0.13791173323988914F, -0.045525018125772476F, 0.03979014977812767F,
    0.1202552504837513F,   0.2035212516784668F,   0.2920137718319893F,    0.3893125355243683F,
    0.5016634166240692F,   0.6427869200706482F,   0.8614784181118011F,
};

std::int64_t group_columns_of(MatrixFormat format, std::int64_t num_columns) {
  switch (format) {
    case MatrixFormat::kInt8Row:
    case MatrixFormat::kE4M3Row: return num_columns;
    case MatrixFormat::kInt8:
    case MatrixFormat::kInt4:
    case MatrixFormat::kInt4A8: return 128;
    case MatrixFormat::kNf4: return 64;
    default: break;
  }
  throw Error(ErrorCode::kInternal, "quantise: a format that is not made at load");
}

bool is_4_bit(MatrixFormat format) {
  return format == MatrixFormat::kInt4 || format == MatrixFormat::kInt4A8 ||
         format == MatrixFormat::kNf4;
}

std::array<float, 16> codebook_of(MatrixFormat format) {
  if (format == MatrixFormat::kNf4) return kNf4Values;
  return integer_codebook();
}

// The parameters of one group of one row, by which its weights are rounded to codes.
struct Group {
  float scale = 0;
  float offset = 0;
  // nf4: 1 / scale, or 0 for a group of zeros, whose codes are then those of 0.0.
  float reciprocal = 0;
};

Group measure(const float* w, std::int64_t count, MatrixFormat format) {
  // Maxima of interleaved parts, which the compiler computes side by side. All are finite.
  constexpr std::int64_t kLanes = 8;
  float mins[kLanes];
  float maxs[kLanes];
  std::fill_n(mins, kLanes, w[0]);
  std::fill_n(maxs, kLanes, w[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      mins[lane] = w[i + lane] < mins[lane] ? w[i + lane] : mins[lane];
      maxs[lane] = w[i + lane] > maxs[lane] ? w[i + lane] : maxs[lane];
    }
  }
  for (; i < count; ++i) {
    mins[0] = std::min(mins[0], w[i]);
    maxs[0] = std::max(maxs[0], w[i]);
  }
  const float min = *std::min_element(mins, mins + kLanes);
  const float max = *std::max_element(maxs, maxs + kLanes);
  const float largest = std::max(std::abs(min), std::abs(max));
  switch (format) {
    case MatrixFormat::kInt8:
    case MatrixFormat::kInt8Row: return {.scale = largest / 127.0F};
    case MatrixFormat::kE4M3Row: return {.scale = largest / kLargestE4M3};
    case MatrixFormat::kNf4:
      return {.scale = largest, .reciprocal = largest == 0 ? 0.0F : 1.0F / largest};
    case MatrixFormat::kInt4: {
      const float scale = max / 15.0F - min / 15.0F;
      return {.scale = scale, .offset = min + 8.0F * scale};
    }
    default: break;  // group_columns_of() has thrown for it
  }
  return {};
}

// Vectors of the compiler, which every instruction set has.
using FourFloats = float __attribute__((vector_size(16)));
using FourInts = std::int32_t __attribute__((vector_size(16)));
using FourBytes = std::int8_t __attribute__((vector_size(4)));

// As round_to(), for four weights of a group whose scale is not 0, to -127 .. 127. Adding and
// subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even: a quotient is below 2^22.
FourBytes round_four_to_8_bits(FourFloats w, const Group& group) {
  constexpr float kRounding = 0x1.8p23F;
  const FourFloats quotients = (w - group.offset) / group.scale;
  const FourInts codes = __builtin_convertvector((quotients + kRounding) - kRounding, FourInts);
  const FourInts capped = codes > 127 ? FourInts{127, 127, 127, 127} : codes;
  return __builtin_convertvector(capped < -127 ? FourInts{-127, -127, -127, -127} : capped,
                                 FourBytes);
}

std::int32_t round_to(float w, const Group& group, std::int32_t low, std::int32_t high) {
  if (group.scale == 0) return std::clamp<std::int32_t>(0, low, high);
  const float code = std::nearbyint((w - group.offset) / group.scale);
  return std::clamp(static_cast<std::int32_t>(code), low, high);
}

std::int8_t code_of_8_bits(float w, const Group& group, bool is_e4m3) {
  if (!is_e4m3) return static_cast<std::int8_t>(round_to(w, group, -127, 127));
  return static_cast<std::int8_t>(to_e4m3(group.scale == 0 ? 0 : w / group.scale));
}

// Returns the code of a weight that was divided by its group's scale.
std::uint8_t nf4_code(float value) {
  unsigned code = 0;
  for (const float midpoint : kNf4Midpoints) code += value > midpoint ? 1 : 0;
  return static_cast<std::uint8_t>(code);
}

std::uint8_t code_of_4_bits(float w, const Group& group, MatrixFormat format) {
  if (format == MatrixFormat::kInt4) {
    return static_cast<std::uint8_t>(round_to(w, group, -8, 7) + 8);
  }
  // bitsandbytes multiplies by the reciprocal, which can give another code than division.
  return nf4_code(w * group.reciprocal);
}

void quantise_row(const float* w, std::int64_t row, MatrixFormat format, QuantisedMatrix& matrix) {
  const std::int64_t columns = matrix.num_columns;
  const std::int64_t groups = matrix.num_groups();
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = g * matrix.group_columns;
    const std::int64_t end = std::min(columns, first + matrix.group_columns);
    const Group group = measure(w + first, end - first, format);
    matrix.scales.as<float>()[row * groups + g] = group.scale;
    if (!matrix.offsets.empty()) matrix.offsets.as<float>()[row * groups + g] = group.offset;
    if (!matrix.is_4_bit()) {
      std::int8_t* const codes = matrix.codes.as<std::int8_t>() + row * columns;
      std::int64_t k = first;
      for (; k + 4 <= end && group.scale != 0 && !matrix.has_e4m3_codes; k += 4) {
        FourFloats four;
        std::memcpy(&four, w + k, sizeof(four));
        const FourBytes rounded = round_four_to_8_bits(four, group);
        std::memcpy(codes + k, &rounded, sizeof(rounded));
      }
      for (; k < end; ++k) {
        codes[k] = code_of_8_bits(w[k], group, matrix.has_e4m3_codes);
      }
      continue;
    }
    std::uint8_t* const codes = matrix.codes.as<std::uint8_t>() + row * matrix.codes.dim(1);
    for (std::int64_t k = first; k < end; ++k) {
      const unsigned code = code_of_4_bits(w[k], group, format);
      std::uint8_t& both = codes[k / 2];
      both = static_cast<std::uint8_t>(k % 2 == 0 ? code : both | code << 4u);
    }
  }
}

// A step and a base of kInt4A8, by which a group of numbers v becomes step * code + base - 128.
struct IntegerGroup {
  int step = 1;
  int base = 0;

  int code(float v) const {
    const float steps =
        std::nearbyint((v - static_cast<float>(base - 128)) / static_cast<float>(step));
    return std::clamp(static_cast<int>(steps), 0, 15);
  }
  float squared_error(const float* v, std::int64_t count) const {
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float difference = v[i] - static_cast<float>(step * code(v[i]) + base - 128);
      sum += difference * difference;
    }
    return sum;
  }
};

// |v| <= 119, so the numbers that the codes stand for fit in 8 bits, however the range is rounded.
IntegerGroup measure_integers(const float* v, std::int64_t count) {
  const auto ends = std::minmax_element(v, v + count);
  const float min = *ends.first;
  const float max = *ends.second;
  const auto with_step = [&](int step) {
    const float middle = (min + max) / 2 - 7.5F * static_cast<float>(step);
    return IntegerGroup{.step = step, .base = 128 + static_cast<int>(std::nearbyint(middle))};
  };
  const int smaller = std::max(1, static_cast<int>((max - min) / 15));
  const IntegerGroup fine = with_step(smaller);
  const IntegerGroup coarse = with_step(smaller + 1);
  return coarse.squared_error(v, count) < fine.squared_error(v, count) ? coarse : fine;
}

// kInt4A8; replaces the numbers of w.
void quantise_row_to_steps(std::span<float> w, std::int64_t row, QuantisedMatrix& matrix) {
  float largest = 0;
  for (const float v : w) largest = std::max(largest, std::abs(v));
  const float scale = largest / 119.0F;
  for (float& v : w) v = scale == 0 ? 0.0F : std::clamp(v / scale, -119.0F, 119.0F);
  matrix.scales.as<float>()[row] = scale;
  const std::int64_t groups = matrix.num_groups();
  std::uint8_t* const codes = matrix.codes.as<std::uint8_t>() + row * matrix.codes.dim(1);
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = g * matrix.group_columns;
    const std::int64_t end = std::min(matrix.num_columns, first + matrix.group_columns);
    const IntegerGroup group = measure_integers(w.data() + first, end - first);
    matrix.steps.as<std::uint8_t>()[row * groups + g] = static_cast<std::uint8_t>(group.step);
    matrix.bases.as<std::uint8_t>()[row * groups + g] = static_cast<std::uint8_t>(group.base);
    for (std::int64_t k = first; k < end; ++k) {
      const auto code = static_cast<unsigned>(group.code(w[static_cast<std::size_t>(k)]));
      codes[k / 2] = static_cast<std::uint8_t>(k % 2 == 0 ? code : codes[k / 2] | code << 4u);
    }
  }
}

// Returns a matrix of the format's form without its numbers.
QuantisedMatrix make_matrix(std::int64_t num_rows, std::int64_t num_columns, MatrixFormat format) {
  QuantisedMatrix matrix;
  matrix.num_columns = num_columns;
  matrix.group_columns = group_columns_of(format, num_columns);
  matrix.has_e4m3_codes = format == MatrixFormat::kE4M3Row;
  const std::int64_t groups = matrix.num_groups();
  matrix.codes = is_4_bit(format) ? Tensor(DType::kU8, {num_rows, (num_columns + 1) / 2})
                                  : Tensor(DType::kI8, {num_rows, num_columns});
  const bool has_steps = format == MatrixFormat::kInt4A8;
  matrix.scales = Tensor(DType::kF32, {num_rows, has_steps ? 1 : groups});
  if (format == MatrixFormat::kInt4) matrix.offsets = Tensor(DType::kF32, {num_rows, groups});
  if (has_steps) {
    matrix.steps = Tensor(DType::kU8, {num_rows, groups});
    matrix.bases = Tensor(DType::kU8, {num_rows, groups});
  } else if (is_4_bit(format)) {
    matrix.codebook = codebook_of(format);
  }
  return matrix;
}

std::array<float, 256> make_dynamic_codebook() {
  constexpr int kExponents = 7;
  std::vector<float> values = {0.0F, 1.0F};
  for (int i = 0; i < kExponents; ++i) {
    // Means of neighbouring numbers of 2^i + 1 that go from 0.1 to 1 in equal steps.
    const int count = 1 << i;
    const float step = (1.0F - 0.1F) / static_cast<float>(count);
    const auto boundary = [&](int j) {
      // As torch.linspace() computes them, with one rounding.
      return j < (count + 1) / 2 ? std::fma(step, static_cast<float>(j), 0.1F)
                                 : std::fma(-step, static_cast<float>(count - j), 1.0F);
    };
    const auto power = static_cast<float>(std::pow(10.0, i - (kExponents - 1)));
    for (int j = 0; j < count; ++j) {
      const float mean = (boundary(j) + boundary(j + 1)) / 2.0F;
      values.push_back(power * mean);
      values.push_back(-power * mean);
    }
  }
  std::sort(values.begin(), values.end());
  std::array<float, 256> codebook{};
  std::copy(values.begin(), values.end(), codebook.begin());
  return codebook;
}

}  // namespace

const std::array<float, 16>& nf4_codebook() { return kNf4Values; }

const std::array<float, 16>& fp4_codebook() { return kFp4Values; }

const std::array<float, 256>& dynamic_codebook() {
  static const std::array<float, 256> codebook = make_dynamic_codebook();
  return codebook;
}

std::array<float, 16> integer_codebook() {
  std::array<float, 16> codebook{};
  for (std::size_t i = 0; i < codebook.size(); ++i) codebook[i] = static_cast<float>(i) - 8.0F;
  return codebook;
}

QuantisedMatrix quantise(ConstView rows, MatrixFormat format) {
  const std::int64_t num_rows = rows.dim(0);
  const std::int64_t num_columns = rows.dim(1);
  CAPTION_CHECK(num_rows > 0 && num_columns > 0, "quantise: a matrix without elements");
  QuantisedMatrix matrix = make_matrix(num_rows, num_columns, format);
  std::vector<float> w(static_cast<std::size_t>(num_columns));
  dispatch_float(rows.dtype(), [&](auto tag) {
    for (std::int64_t n = 0; n < num_rows; ++n) {
      const auto* const from = rows.as<decltype(tag)>() + n * rows.row_stride();
      for (std::size_t k = 0; k < w.size(); ++k) w[k] = to_float(from[k]);
      // All numbers are looked at: no branches.
      std::int32_t num_bad = 0;
      for (const float v : w) num_bad += std::abs(v) <= std::numeric_limits<float>::max() ? 0 : 1;
      if (num_bad != 0) {
        throw Error(ErrorCode::kBadModel,
                    "a weight is not a finite number; download the file again");
      }
      if (format == MatrixFormat::kInt4A8) {
        quantise_row_to_steps(w, n, matrix);
      } else {
        quantise_row(w.data(), n, format, matrix);
      }
    }
  });
  return matrix;
}

}  // namespace caption::weights
