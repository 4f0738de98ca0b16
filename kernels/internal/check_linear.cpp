#include "kernels/internal/check_linear.h"

#include <algorithm>

namespace caption::kernels::internal {
namespace {

void check_part(const Check& check, ConstView x, const LinearPart& part, LinearOutput output) {
  const Weight& weight = part.weight;
  const std::int64_t n = weight.num_features();
  check.device("weight", weight.device());
  check.activations("x", x, {x.dim(0), weight.num_columns()});
  if (!part.bias.empty()) {
    check.floating("bias", part.bias, {n});
    check.dense("bias", part.bias);
  }
  if (!part.scale.empty()) {
    check.floating("scale", part.scale, {n});
    check.dense("scale", part.scale);
  }
  const Shape y = {x.dim(0), n};
  if (output == LinearOutput::kAdd) {
    check.f32("y", part.y, y);  // the residual stream
  } else {
    check.activations("y", part.y, y);
  }
}

}  // namespace

bool are_alike(std::span<const LinearPart> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const LinearPart& part) {
    return part.weight.form().is_like(parts.front().weight.form());
  });
}

void check_parts(Check& check, ConstView x, std::span<const LinearPart> parts,
                 LinearOutput output) {
  check.rank("x", x, 2);
  const Weight& first = parts.front().weight;
  std::int64_t num_features = 0;
  for (const LinearPart& part : parts) num_features += part.weight.num_features();
  check.set_matrix(num_features, first.num_columns());
  for (const LinearPart& part : parts) {
    check_part(check, x, part, output);
    if (!part.weight.form().is_like(first.form())) {
      check.fail("one weight is " + first.form().describe() + ", another " +
                 part.weight.form().describe());
    }
  }
}

}  // namespace caption::kernels::internal
