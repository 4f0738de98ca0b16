#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace caption::model {
namespace {

// Positions per radian in dimension i: theta^(2 i / head_dim).
float period_of(double theta, std::int64_t i, std::int64_t head_dim) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
  return std::pow(static_cast<float>(theta), exponent);
}

// The base of NTK-aware scaling for a sequence of the original length: theta, but for roundings.
double dynamic_theta(const RopeSpec& spec, std::int64_t head_dim) {
  const auto length = static_cast<double>(spec.original_max_position);
  const auto dim = static_cast<double>(head_dim);
  const double stretch = spec.factor * length / length - (spec.factor - 1);
  return spec.theta * std::pow(stretch, dim / (dim - 2));
}

double yarn_mscale(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

// Dimensions below `low` keep their frequencies, those from `high` on are interpolated.
struct YarnRamp {
  double low = 0;
  double high = 0;

  // Share of the interpolated frequency in dimension i.
  float at(std::int64_t i) const {
    const double width = low == high ? high + 0.001 - low : high - low;
    const float place =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(width);
    return std::clamp(place, 0.0F, 1.0F);
  }
};

YarnRamp yarn_ramp(const RopeSpec& spec, std::int64_t head_dim) {
  const auto dim = static_cast<double>(head_dim);
  const auto length = static_cast<double>(spec.original_max_position);
  // The dimension that turns so many times over the original length.
  const auto dimension_of = [&](double rotations) {
    return dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(spec.theta));
  };
  YarnRamp ramp{.low = dimension_of(spec.beta_fast), .high = dimension_of(spec.beta_slow)};
  if (spec.truncate) ramp = {.low = std::floor(ramp.low), .high = std::ceil(ramp.high)};
  return {.low = std::max(ramp.low, 0.0), .high = std::min(ramp.high, dim - 1)};
}

float yarn_frequency(const YarnRamp& ramp, double factor, float period, std::int64_t i) {
  const float extrapolated = 1.0F / period;
  const float interpolated = 1.0F / (static_cast<float>(factor) * period);
  const float share = 1.0F - ramp.at(i);
  const float first = interpolated * (1.0F - share);
  const float second = extrapolated * share;
  return first + second;
}

float llama3_frequency(const RopeSpec& spec, float frequency) {
  const auto length = static_cast<double>(spec.original_max_position);
  const auto low_wavelength = static_cast<float>(length / spec.low_freq_factor);
  const auto high_wavelength = static_cast<float>(length / spec.high_freq_factor);
  const auto factor = static_cast<float>(spec.factor);
  // torch divides a number by a tensor as the number times the tensor's reciprocal.
  const float wavelength = 1.0F / frequency * static_cast<float>(2 * std::numbers::pi);
  if (wavelength > low_wavelength) return frequency / factor;
  if (wavelength < high_wavelength) return frequency;
  const float rotations = 1.0F / wavelength * static_cast<float>(spec.original_max_position);
  const float smooth = (rotations - static_cast<float>(spec.low_freq_factor)) /
                       static_cast<float>(spec.high_freq_factor - spec.low_freq_factor);
  const float first = (1.0F - smooth) * frequency / factor;
  const float second = smooth * frequency;
  return first + second;
}

}  // namespace

std::string_view rope_kind_name(RopeKind kind) {
  switch (kind) {
    case RopeKind::kDefault: return "default";
    case RopeKind::kLinear: return "linear";
    case RopeKind::kDynamic: return "dynamic";
    case RopeKind::kYarn: return "yarn";
    case RopeKind::kLlama3: return "llama3";
  }
  return "default";
}

double yarn_attention_factor(const RopeSpec& spec) {
  if (spec.attention_factor.has_value()) return *spec.attention_factor;
  if (spec.mscale != 0 && spec.mscale_all_dim != 0) {
    return yarn_mscale(spec.factor, spec.mscale) / yarn_mscale(spec.factor, spec.mscale_all_dim);
  }
  return yarn_mscale(spec.factor, 1);
}

RotaryFrequencies make_rotary_frequencies(const RopeSpec& spec, std::int64_t head_dim) {
  const double theta = spec.kind == RopeKind::kDynamic ? dynamic_theta(spec, head_dim) : spec.theta;
  const YarnRamp ramp = spec.kind == RopeKind::kYarn ? yarn_ramp(spec, head_dim) : YarnRamp{};
  RotaryFrequencies result{.inv_freq = Tensor(DType::kF32, {head_dim / 2})};
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const float period = period_of(theta, i, head_dim);
    float frequency = 1.0F / period;
    switch (spec.kind) {
      case RopeKind::kDefault:
      case RopeKind::kDynamic: break;
      case RopeKind::kLinear: frequency /= static_cast<float>(spec.factor); break;
      case RopeKind::kYarn: frequency = yarn_frequency(ramp, spec.factor, period, i); break;
      case RopeKind::kLlama3: frequency = llama3_frequency(spec, frequency); break;
    }
    result.inv_freq.as<float>()[i] = frequency;
  }
  if (spec.kind == RopeKind::kYarn) {
    result.attention_scaling = static_cast<float>(yarn_attention_factor(spec));
  }
  return result;
}

std::int64_t rope_max_positions(const RopeSpec& spec, std::int64_t max_positions) {
  // Configurations differ in whether max_position_embeddings includes the factor of yarn.
  double scaled = static_cast<double>(max_positions);
  if (spec.kind == RopeKind::kLinear) scaled *= spec.factor;
  if (spec.kind == RopeKind::kYarn) {
    scaled = std::max(scaled, static_cast<double>(spec.original_max_position) * spec.factor);
  }
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(std::min(scaled, kMost));
}

}  // namespace caption::model
