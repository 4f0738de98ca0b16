#include "kernels/internal/check_logits.h"

#include <cstdint>
#include <string>

#include "kernels/sample_rows.h"

namespace caption::kernels::internal {

void check_logits(const Check& check, ConstView logits) {
  check.rank("logits", logits, 2);
  const std::int64_t vocab = logits.dim(1);
  if (vocab < 1 || vocab > kMaxSampledVocab) {
    check.fail("a vocabulary of " + std::to_string(vocab) + "; wanted 1 to " +
               std::to_string(kMaxSampledVocab));
  }
  check.f32("logits", logits, logits.shape());
}

void check_aligned(const Check& check, std::string_view name, ConstView view, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(view.raw()) % bytes == 0) return;
  check.fail(std::string(name) + " is not aligned to " + std::to_string(bytes) + " bytes");
}

void check_rows_of_ids(const Check& check, ConstView rows, const Shape& shape,
                       std::size_t alignment, ConstView ids) {
  check.same_dtype("rows", rows, shape, DType::kI8);
  check.dense("rows", rows);
  check_aligned(check, "rows", rows, alignment);
  check.rank("ids", ids, 1);
  check.i32("ids", ids, ids.shape());
  check.dense("ids", ids);
}

}  // namespace caption::kernels::internal
