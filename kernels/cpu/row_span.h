// kernels/cpu/row_span.h: the vectors along the last axis of a view, numbered 0, 1, 2, ...
#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/tensor.h"

namespace caption::kernels::cpu {

template <class T>
struct RowSpan {
  T* begin;
  std::int64_t count;       // number of vectors
  std::int64_t dim;         // elements of one vector
  std::int64_t per_row;     // vectors in a row of the first axis
  std::int64_t row_stride;  // elements between rows of the first axis

  T* operator[](std::int64_t i) const {
    return begin + i / per_row * row_stride + i % per_row * dim;
  }
};

// The rank of the view must be at least 2. T is const for inputs only.
template <class T, class AnyView>
RowSpan<T> row_span(const AnyView& view) {
  const std::int64_t dim = view.dim(-1);
  const std::int64_t count = dim == 0 ? 0 : view.num_elements() / dim;
  const std::int64_t rows = view.dim(0);
  return {view.template as<std::remove_const_t<T>>(), count, dim, rows == 0 ? 1 : count / rows,
          view.row_stride()};
}

}  // namespace caption::kernels::cpu
