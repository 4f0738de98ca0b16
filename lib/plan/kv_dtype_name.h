// plan/kv_dtype_name.h: the names of the dtypes of KV pages in tables and JSON.
#pragma once

#include <string_view>

#include "tensor/dtype.h"

namespace caption::plan {

// As --kv-dtype has them: "f32", "bf16", "f16", "int8".
constexpr std::string_view kv_dtype_name(DType dtype) {
  return dtype == DType::kI8 ? "int8" : dtype_name(dtype);
}

}  // namespace caption::plan
