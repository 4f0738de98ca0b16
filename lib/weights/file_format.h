// weights/file_format.h: the formats of weights that are codes of a file: kAwq, kGptq, kNf4Double.
//
// Nothing makes such codes at load (lib/quantise does, once). A model in such a format holds the
// codes of its files, with f32 scales and offsets, and everything else as kBF16.
#pragma once

#include <string_view>

#include "weights/format.h"
#include "weights/source.h"

namespace caption::weights {

bool is_file_format(WeightFormat format);

// Whether the codes are those that a file format names: nf4 codes without double quantisation are
// not those of kNf4Double.
bool are_codes_of(WeightFormat format, const StoredCodes& codes);

// Texts for messages, for file formats only: "AWQ codes", and what to do about a model without
// them.
std::string_view name_codes(WeightFormat format);
std::string_view way_to_codes(WeightFormat format);

}  // namespace caption::weights
