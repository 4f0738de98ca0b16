// model/internal/placed_rows.h: matrices and vectors that are held in rows, as numbers of another
// type than the file's or on another device.
#pragma once

#include <string_view>

#include "backend/stream.h"
#include "tensor/tensor.h"
#include "weights/source.h"

namespace caption::model {

// Returns the numbers of `file`, on the host, as `dtype` on the stream's device, converted by the
// stream's threads to nearest even.
Tensor convert_rows(Stream& stream, ConstView file, DType dtype);

// Returns the numbers of a matrix for which Source::has_decodable_rows() is true as bf16 on the
// stream's device. A few megabytes of them are held as f32 at a time.
Tensor round_decoded_rows(Stream& stream, const weights::Source& source, std::string_view name,
                          const Shape& shape);

}  // namespace caption::model
