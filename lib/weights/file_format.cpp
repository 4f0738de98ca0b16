#include "weights/file_format.h"

namespace caption::weights {

bool is_file_format(WeightFormat format) {
  return format == WeightFormat::kAwq || format == WeightFormat::kGptq ||
         format == WeightFormat::kNf4Double;
}

bool are_codes_of(WeightFormat format, const StoredCodes& codes) {
  if (!is_file_format(format) || !keeps_codes(format, codes)) return false;
  return format != WeightFormat::kNf4Double || codes.format == MatrixFormat::kNf4Double;
}

std::string_view name_codes(WeightFormat format) {
  if (format == WeightFormat::kNf4Double) return "nf4 codes with double quantisation";
  return format == WeightFormat::kGptq ? "GPTQ codes" : "AWQ codes";
}

std::string_view way_to_codes(WeightFormat format) {
  if (format == WeightFormat::kNf4Double) {
    return "`caption-cli quantize MODEL -o FOLDER --format nf4 --double-quant` makes a folder that "
           "does, and nf4 without double_quant rounds other weights to 4 bits as they are loaded";
  }
  return format == WeightFormat::kGptq
             ? "`caption-cli quantize MODEL -o FOLDER --format gptq` makes a folder that does, and "
               "--dtype int4 rounds other weights to 4 bits as they are loaded"
             : "`caption-cli quantize MODEL -o FOLDER --format awq` makes a folder that does, and "
               "--dtype int4 rounds other weights to 4 bits as they are loaded";
}

}  // namespace caption::weights
