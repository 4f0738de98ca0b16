#include "config/choices.h"

#include "base/error.h"

namespace caption::config {

weights::WeightFormat named_format(WeightFormat choice) {
  using Held = weights::WeightFormat;
  switch (choice) {
    case WeightFormat::kF32: return Held::kF32;
    case WeightFormat::kBF16: return Held::kBF16;
    case WeightFormat::kF16: return Held::kF16;
    case WeightFormat::kInt8: return Held::kInt8;
    case WeightFormat::kInt4: return Held::kInt4;
    case WeightFormat::kNf4: return Held::kNf4;
    case WeightFormat::kW8A8: return Held::kW8A8;
    case WeightFormat::kFp8: return Held::kFp8;
    case WeightFormat::kW4A8: return Held::kW4A8;
    case WeightFormat::kInt4Head4: return Held::kInt4Head4;
    case WeightFormat::kW4A8Head4: return Held::kW4A8Head4;
    case WeightFormat::kAwq: return Held::kAwq;
    case WeightFormat::kGptq: return Held::kGptq;
    case WeightFormat::kAuto: break;
  }
  throw Error(ErrorCode::kInternal, "config: weights are still auto where their format counts");
}

std::string_view option_name(weights::WeightFormat format) {
  if (format == weights::WeightFormat::kNf4Double) format = weights::WeightFormat::kNf4;
  for (const Choice<WeightFormat>& choice : kWeightFormats) {
    const bool is_named = choice.value != WeightFormat::kAuto;
    if (is_named && named_format(choice.value) == format) return choice.name;
  }
  return {};
}

}  // namespace caption::config
