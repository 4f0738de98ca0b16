#include "weights/not_finite.h"

#include <algorithm>
#include <cmath>

namespace caption::weights {

bool has_finite_numbers(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

std::optional<std::int64_t> find_not_finite(ConstView tensor) {
  std::optional<std::int64_t> found;
  dispatch_float(tensor.dtype(), [&](auto tag) {
    const auto* const begin = tensor.as<decltype(tag)>();
    const auto* const end = begin + tensor.num_elements();
    const auto* const at =
        std::find_if_not(begin, end, [](auto value) { return std::isfinite(to_float(value)); });
    if (at != end) found = at - begin;
  });
  return found;
}

std::string describe_not_finite(const std::string& tensor, std::int64_t element) {
  return tensor + " holds a number that is not finite (element " + std::to_string(element) + ")";
}

}  // namespace caption::weights
