#include "kernels/linear.h"

#include <utility>

#include "backend/dispatch.h"
#include "kernels/internal/check_linear.h"

namespace caption::kernels {
namespace {

void checked_linear(internal::Check&& check, Stream& stream, ConstView x,
                    std::span<const LinearPart> parts, LinearOutput output) {
  internal::check_parts(check, x, parts, output);
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
  const std::size_t count = internal::are_alike(parts) ? parts.size() : 1;
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
  internal::check_parts(check, x, parts, LinearOutput::kWrite);
  dispatch(stream.device(),
           [&](auto device) { impl::linear_swiglu(device, stream, x, parts[0], parts[1]); });
}

}  // namespace caption::kernels
