// The reference of Tier::pack_scales(), one number at a time.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

float number_at(const PanelScalesArgs& args, std::int64_t i) {
  switch (args.element) {
    case Element::kBF16: return to_float(static_cast<const BF16*>(args.numbers)[i]);
    case Element::kF16: return to_float(static_cast<const F16*>(args.numbers)[i]);
    default: return static_cast<const float*>(args.numbers)[i];
  }
}

float zero_at(const PanelScalesArgs& args, std::int64_t n, std::int64_t g) {
  constexpr unsigned kEvenFirst[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // the nibble of row n % 8
  const auto row = static_cast<unsigned>(n % 8);
  const unsigned nibble = args.has_even_rows_first ? kEvenFirst[row] : row;
  return static_cast<float>(args.zeros[g * args.zero_stride + n / 8] >> (4 * nibble) & 15u);
}

}  // namespace

bool pack_scales_reference(const PanelScalesArgs& args) {
  bool is_usable = true;
  for (std::int64_t g = 0; g < args.num_groups; ++g) {
    float* const to = args.to + g * kPanelColumns;
    float* const offsets = args.zeros == nullptr ? nullptr : args.offsets + g * kPanelColumns;
    std::fill_n(to, kPanelColumns, 0.0F);
    if (offsets != nullptr) std::fill_n(offsets, kPanelColumns, 0.0F);
    for (std::int64_t n = 0; n < args.num_rows; ++n) {
      to[n] = number_at(args, n * args.row_stride + g * args.group_stride);
      is_usable = is_usable && std::abs(to[n]) <= args.largest;
      if (offsets != nullptr) offsets[n] = to[n] * (args.middle - zero_at(args, n, g));
    }
  }
  return is_usable;
}

}  // namespace caption::kernels::cpu
