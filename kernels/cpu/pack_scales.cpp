// The reference of Tier::pack_scales(), one number at a time.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

std::int8_t zero_at(const PanelScalesArgs& args, std::int64_t n, std::int64_t g) {
  constexpr unsigned kEvenFirst[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // the nibble of row n % 8
  const auto row = static_cast<unsigned>(n % 8);
  const unsigned nibble = args.has_even_rows_first ? kEvenFirst[row] : row;
  const std::uint32_t word = args.zeros[g * args.zero_stride + n / 8];
  return static_cast<std::int8_t>(word >> (4 * nibble) & 15u);
}

// T is the type of the element.
template <class T>
bool pack(const PanelScalesArgs& args) {
  bool is_usable = true;
  for (std::int64_t g = 0; g < args.num_groups; ++g) {
    T* const to = static_cast<T*>(args.to) + g * kPanelColumns;
    std::int8_t* const offsets = args.zeros == nullptr ? nullptr : args.offsets + g * kPanelColumns;
    std::fill_n(to, kPanelColumns, T{});
    if (offsets != nullptr) std::fill_n(offsets, kPanelColumns, std::int8_t{0});
    for (std::int64_t n = 0; n < args.num_rows; ++n) {
      to[n] = static_cast<const T*>(args.numbers)[n * args.row_stride + g * args.group_stride];
      is_usable = is_usable && std::abs(to_float(to[n])) <= args.largest;
      if (offsets != nullptr) {
        offsets[n] = static_cast<std::int8_t>(args.middle - zero_at(args, n, g));
      }
    }
  }
  return is_usable;
}

}  // namespace

bool pack_scales_reference(const PanelScalesArgs& args) {
  switch (args.element) {
    case Element::kBF16: return pack<BF16>(args);
    case Element::kF16: return pack<F16>(args);
    default: return pack<float>(args);
  }
}

}  // namespace caption::kernels::cpu
