// weights/code_format.h: the form in which a model multiplies by the codes of a file.
#pragma once

#include "tensor/matrix_format.h"
#include "weights/format.h"
#include "weights/source.h"

namespace caption::weights {

// Returns the form of codes that a model in `format` keeps (keeps_codes()). Rows of 8 bits
// (kInt8Row), whose products round the activations to 8 bits too, are so held in kW8A8 only, and in
// groups of a whole row (kInt8) in the other formats.
inline MatrixFormat code_format(WeightFormat format, const StoredCodes& codes) {
  const bool is_row = codes.format == MatrixFormat::kInt8Row;
  return is_row && format != WeightFormat::kW8A8 ? MatrixFormat::kInt8 : codes.format;
}

}  // namespace caption::weights
