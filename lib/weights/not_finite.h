// weights/not_finite.h: numbers of a tensor that are no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/tensor.h"

namespace caption::weights {

// Whether find_not_finite() reads the dtype: F32, BF16 and F16.
bool has_finite_numbers(DType dtype);
// Returns the position, in the order of the elements, of the first number that is NaN or infinite;
// nullopt if there is none. `tensor` is contiguous.
std::optional<std::int64_t> find_not_finite(ConstView tensor);
// "FILE: tensor NAME holds a number that is not finite (element 3)".
std::string describe_not_finite(const std::string& tensor, std::int64_t element);

}  // namespace caption::weights
