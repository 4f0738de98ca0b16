#include "weights/format.h"

#include <array>
#include <string>

#include "base/error.h"

namespace caption::weights {
namespace {

constexpr std::array kFormats = {
    WeightFormat::kF32,  WeightFormat::kBF16,      WeightFormat::kF16,  WeightFormat::kInt8,
    WeightFormat::kW8A8, WeightFormat::kFp8,       WeightFormat::kInt4, WeightFormat::kInt4Head4,
    WeightFormat::kW4A8, WeightFormat::kW4A8Head4, WeightFormat::kNf4,  WeightFormat::kNf4Double,
    WeightFormat::kAwq,  WeightFormat::kGptq};

// Returns the form of the parameters that a format does not quantise.
MatrixFormat plain_format(WeightFormat format) {
  if (format == WeightFormat::kF32) return MatrixFormat::kStored;
  return format == WeightFormat::kF16 ? MatrixFormat::kF16 : MatrixFormat::kBF16;
}

MatrixFormat decoder_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kF16: return plain_format(format);
    case WeightFormat::kInt8: return MatrixFormat::kInt8;
    case WeightFormat::kInt4:
    case WeightFormat::kInt4Head4:
    case WeightFormat::kAwq:
    case WeightFormat::kGptq: return MatrixFormat::kInt4;
    case WeightFormat::kNf4:
    case WeightFormat::kNf4Double: return MatrixFormat::kNf4;
    case WeightFormat::kW8A8: return MatrixFormat::kInt8Row;
    case WeightFormat::kFp8: return MatrixFormat::kE4M3Row;
    case WeightFormat::kW4A8:
    case WeightFormat::kW4A8Head4: return MatrixFormat::kInt4A8;
  }
  return MatrixFormat::kBF16;
}

bool has_8_bit_inputs(WeightFormat format) {
  return format == WeightFormat::kW8A8 || format == WeightFormat::kW4A8 ||
         format == WeightFormat::kW4A8Head4;
}

MatrixFormat head_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kW8A8:
    case WeightFormat::kW4A8: return MatrixFormat::kInt8Row;
    case WeightFormat::kInt8:
    case WeightFormat::kInt4:
    case WeightFormat::kNf4:
    case WeightFormat::kFp8: return MatrixFormat::kInt8;
    case WeightFormat::kInt4Head4:
    case WeightFormat::kW4A8Head4: return decoder_format(format);
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kF16:
    case WeightFormat::kNf4Double:
    case WeightFormat::kAwq:
    case WeightFormat::kGptq: break;
  }
  return plain_format(format);
}

}  // namespace

std::string_view describe(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kBF16: return "bf16";
    case WeightFormat::kF16: return "f16";
    case WeightFormat::kInt8: return "int8, groups of 128";
    case WeightFormat::kInt4: return "int4, groups of 128";
    case WeightFormat::kNf4: return "nf4";
    case WeightFormat::kNf4Double: return "nf4, double quantised";
    case WeightFormat::kW8A8: return "w8a8";
    case WeightFormat::kFp8: return "fp8";
    case WeightFormat::kW4A8: return "w4a8, groups of 128";
    case WeightFormat::kInt4Head4: return "int4 with a 4-bit head, groups of 128";
    case WeightFormat::kW4A8Head4: return "w4a8 with a 4-bit head, groups of 128";
    case WeightFormat::kAwq: return "awq, groups of 128";
    case WeightFormat::kGptq: return "gptq, groups of 128";
  }
  return "?";
}

std::span<const WeightFormat> all_weight_formats() { return kFormats; }

bool can_be_held(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kInt8:
    case WeightFormat::kInt4:
    case WeightFormat::kNf4:
    case WeightFormat::kW8A8:
    case WeightFormat::kFp8:
    case WeightFormat::kW4A8:
    case WeightFormat::kInt4Head4:
    case WeightFormat::kW4A8Head4: return true;
    case WeightFormat::kF16:
    case WeightFormat::kNf4Double:
    case WeightFormat::kAwq:
    case WeightFormat::kGptq: break;
  }
  return false;
}

std::optional<std::string> find_obstacle(const Context& context, WeightFormat format,
                                         WeightFormat other) {
  constexpr int kLeastCapability = 89;
  const int capability = context.compute_capability;
  const bool is_gpu = context.device.is_cuda();
  const bool has_products = is_gpu && (capability == 0 || capability >= kLeastCapability);
  if (format != WeightFormat::kFp8 || has_products) return std::nullopt;
  const std::string of_gpu =
      "a GPU of " + std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  return "--dtype fp8 needs a GPU of compute capability 8.9 or later (Ada, Hopper); on " +
         (is_gpu ? of_gpu : "the CPU") + " use --dtype " + std::string(describe(other));
}

bool keeps_codes(WeightFormat format, const StoredCodes& codes) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kF16: return true;
    case WeightFormat::kInt8:
      return codes.format == MatrixFormat::kInt8 || codes.format == MatrixFormat::kInt8Row;
    case WeightFormat::kInt4:
    case WeightFormat::kInt4Head4: return codes.format == MatrixFormat::kInt4;
    case WeightFormat::kW8A8: return codes.format == MatrixFormat::kInt8Row;
    case WeightFormat::kFp8: return codes.format == MatrixFormat::kE4M3Row;
    case WeightFormat::kW4A8:
    case WeightFormat::kW4A8Head4: return false;  // no file holds its steps
    case WeightFormat::kNf4:
    case WeightFormat::kNf4Double: return codes.method == "nf4";
    case WeightFormat::kAwq: return codes.method == "awq";
    case WeightFormat::kGptq: return codes.method == "gptq";
  }
  return false;
}

void require_kept_codes(WeightFormat format, const StoredCodes& codes, const std::string& tensor) {
  if (keeps_codes(format, codes)) return;
  throw Error(ErrorCode::kUnavailable,
              tensor + " holds " + (codes.layout.is_8_bit ? "8" : "4") + "-bit codes (" +
                  std::string(codes.method) + "), which " + std::string(describe(format)) +
                  " would round a second time; bf16 keeps them as they are, and --requantize true "
                  "makes new codes");
}

MatrixFormat matrix_format(WeightFormat format, Role role) {
  switch (role) {
    case Role::kDecoderLinear: return decoder_format(format);
    case Role::kHead: return head_format(format);
    case Role::kEncoderLinear:
      return has_8_bit_inputs(format) ? MatrixFormat::kInt8Row : plain_format(format);
    case Role::kVector:
    case Role::kEmbedding:
    case Role::kPatchEmbedding: break;
  }
  return plain_format(format);
}

}  // namespace caption::weights
