#include "kernels/linear.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

void check_part(const internal::Check& check, ConstView x, const LinearPart& part,
                LinearOutput output) {
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

// Also sets the matrix in the profile to all parts stacked: the sum of their features by K.
void check_parts(internal::Check& check, ConstView x, std::span<const LinearPart> parts,
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

void checked_linear(internal::Check&& check, Stream& stream, ConstView x,
                    std::span<const LinearPart> parts, LinearOutput output) {
  check_parts(check, x, parts, output);
  dispatch(stream.device(), [&](auto device) { impl::linear(device, stream, x, parts, output); });
}

void checked_linear(internal::Check&& check, Stream& stream, ConstView x, const LinearPart& part,
                    LinearOutput output) {
  checked_linear(std::move(check), stream, x, std::span(&part, 1), output);
}

}  // namespace

void linear(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear", stream), stream, x, {weight, bias, y},
                 LinearOutput::kWrite);
}

void linear(Stream& stream, ConstView x, std::span<const LinearPart> parts) {
  const bool are_alike = std::all_of(parts.begin(), parts.end(), [&](const LinearPart& part) {
    return part.weight.form().is_like(parts.front().weight.form());
  });
  const std::size_t count = are_alike ? parts.size() : 1;
  for (; !parts.empty(); parts = parts.subspan(count)) {
    checked_linear(internal::Check("linear", stream), stream, x, parts.first(count),
                   LinearOutput::kWrite);
  }
}

void linear_add(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_add", stream), stream, x, {weight, bias, y},
                 LinearOutput::kAdd);
}

void linear_add_scaled(Stream& stream, ConstView x, BiasedWeight weight, ConstView scale, View y) {
  internal::Check check("linear_add_scaled", stream);
  if (scale.empty()) check.fail("scale is empty; without one call linear_add()");
  checked_linear(std::move(check), stream, x, {weight.weight, weight.bias, y, scale},
                 LinearOutput::kAdd);
}

void linear_gelu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_gelu", stream), stream, x, {weight, bias, y},
                 LinearOutput::kGelu);
}

void linear_gelu_tanh(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_gelu_tanh", stream), stream, x, {weight, bias, y},
                 LinearOutput::kGeluTanh);
}

void linear_quick_gelu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_quick_gelu", stream), stream, x, {weight, bias, y},
                 LinearOutput::kQuickGelu);
}

void linear_silu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_silu", stream), stream, x, {weight, bias, y},
                 LinearOutput::kSilu);
}

void linear_relu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_relu", stream), stream, x, {weight, bias, y},
                 LinearOutput::kRelu);
}

void linear_swiglu(Stream& stream, ConstView x, BiasedWeight gate, BiasedWeight up, View y) {
  internal::Check check("linear_swiglu", stream);
  const LinearPart parts[] = {{gate.weight, gate.bias, y}, {up.weight, up.bias, y}};
  check_parts(check, x, parts, LinearOutput::kWrite);
  dispatch(stream.device(),
           [&](auto device) { impl::linear_swiglu(device, stream, x, parts[0], parts[1]); });
}

}  // namespace caption::kernels
