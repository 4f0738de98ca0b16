#include "kernels/convert.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

template <class From, class To>
void convert_row(const cpu::Tier& tier, const From* x, To* y, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    std::memmove(y, x, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (std::is_same_v<To, BF16>) {
    tier.round_numbers(x, cpu::element_of(kDTypeOf<From>), reinterpret_cast<std::uint16_t*>(y), n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i] = from_float<To>(to_float(x[i]));
  }
}

}  // namespace

void convert(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t rows = x.dim(0);
  if (x.num_elements() == 0) return;
  const std::int64_t dim = x.num_elements() / rows;
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  dispatch_float(x.dtype(), [&](auto from_tag) {
    dispatch_float(y.dtype(), [&](auto to_tag) {
      const auto* const from = x.as<decltype(from_tag)>();
      auto* const to = y.as<decltype(to_tag)>();
      cpu::parallel_for(stream, rows, dim, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          convert_row(tier, from + r * x.row_stride(), to + r * y.row_stride(), dim);
        }
      });
    });
  });
}

}  // namespace caption::kernels::impl
