#include "plan/format_choice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/counted.h"
#include "base/figures.h"
#include "base/join.h"

namespace caption::plan {
namespace {

using weights::WeightFormat;

// Formats without a measured loss, in the order of preference. The first two are chosen by speed.
constexpr std::array kUnmeasuredOrder = {
    WeightFormat::kBF16, WeightFormat::kInt8,      WeightFormat::kW8A8,
    WeightFormat::kFp8,  WeightFormat::kInt4,      WeightFormat::kNf4,
    WeightFormat::kW4A8, WeightFormat::kInt4Head4, WeightFormat::kW4A8Head4};
constexpr std::size_t kNumSafe = 2;

using Candidates = std::vector<std::size_t>;

double loss_of(const FormatCost& format) {
  return format.loss.value_or(std::numeric_limits<double>::infinity());
}

// Whether `a` is as good as `b` in everything and better in something.
bool dominates(const FormatCost& a, const FormatCost& b) {
  const bool is_as_good = a.memory_bytes <= b.memory_bytes && a.videos_per_s >= b.videos_per_s &&
                          loss_of(a) <= loss_of(b);
  return is_as_good && (a.memory_bytes < b.memory_bytes || a.videos_per_s > b.videos_per_s ||
                        loss_of(a) < loss_of(b));
}

// The place of a format in kUnmeasuredOrder; behind all of them for another one.
std::size_t order_of(const FormatCost& format) {
  const auto* const found =
      std::find(kUnmeasuredOrder.begin(), kUnmeasuredOrder.end(), format.format);
  return static_cast<std::size_t>(found - kUnmeasuredOrder.begin());
}

std::string speed_text(const FormatCost& format) {
  return format_number(format.videos_per_s) + " videos/s";
}
std::string loss_text(const FormatCost& format) {
  return format.loss.has_value() ? format_number(*format.loss, 2) + " nats a token"
                                 : "a loss that is not measured";
}

// The candidate of the least loss of those whose speed counts as equal to the fastest's, the
// fastest one, and the number of those of equal speed.
struct FastChoice {
  std::size_t chosen = 0;
  std::size_t fastest = 0;
  std::int64_t num_equal = 0;
};
FastChoice choose_fast(std::span<const FormatCost> formats, const Candidates& candidates) {
  const auto is_slower = [&](std::size_t a, std::size_t b) {
    return formats[a].videos_per_s < formats[b].videos_per_s;
  };
  FastChoice choice;
  choice.fastest = *std::max_element(candidates.begin(), candidates.end(), is_slower);
  choice.chosen = choice.fastest;
  const double least_speed = (1 - kEqualSpeed) * formats[choice.fastest].videos_per_s;
  for (const std::size_t i : candidates) {
    if (formats[i].videos_per_s < least_speed) continue;
    ++choice.num_equal;
    const FormatCost& one = formats[i];
    const FormatCost& best = formats[choice.chosen];
    const bool is_better = loss_of(one) != loss_of(best) ? loss_of(one) < loss_of(best)
                                                         : order_of(one) < order_of(best);
    if (is_better) choice.chosen = i;
  }
  return choice;
}

// "; bf16, w8a8 do not fit": the formats but f32 that are acceptable and do not fit.
template <class IsAcceptable>
std::string describe_too_large(std::span<const FormatCost> formats,
                               const IsAcceptable& is_acceptable) {
  std::vector<std::string> names;
  for (const FormatCost& format : formats) {
    const bool is_left_out = !format.fits && !format.is_made && format.format != WeightFormat::kF32;
    if (is_left_out && is_acceptable(format)) names.push_back(format.name);
  }
  if (names.empty()) return {};
  return "; " + join(names) + (names.size() == 1 ? " does not fit" : " do not fit");
}

// "the fastest of 3 formats that fit and lose at most 0.02 nats", where `which` begins with "fit".
// When two formats are equally fast, the sentence says what decided.
std::string describe_fast(std::span<const FormatCost> formats, const Candidates& candidates,
                          const FastChoice& choice, const std::string& which) {
  if (candidates.size() == 1) return "the only one of those that " + which;
  const std::string of = " of " + std::to_string(candidates.size()) + " formats that " + which;
  if (choice.num_equal == 1) return "the fastest" + of;
  const FormatCost& fastest = formats[choice.fastest];
  const bool is_measured = formats[choice.chosen].loss.has_value();
  return (is_measured ? "the least loss of " : "first in the order for unmeasured formats of ") +
         std::to_string(choice.num_equal) + " within 5 % of the fastest, " + fastest.name + " at " +
         speed_text(fastest) + "," + of;
}

FormatChoice choose_measured(std::span<const FormatCost> formats, const Candidates& measured) {
  const auto loses_less = [&](std::size_t a, std::size_t b) {
    return loss_of(formats[a]) < loss_of(formats[b]);
  };
  Candidates good;
  std::copy_if(measured.begin(), measured.end(), std::back_inserter(good),
               [&](std::size_t i) { return *formats[i].loss <= kMostLoss; });
  const std::string bound = format_number(kMostLoss, 1) + " nats";
  if (good.empty()) {
    const std::size_t least = *std::min_element(measured.begin(), measured.end(), loses_less);
    return {.index = least,
            .reason = formats[least].name + " at " + loss_text(formats[least]) +
                      ": the least loss of the formats that fit, which all lose more than " +
                      bound};
  }
  const FastChoice choice = choose_fast(formats, good);
  const FormatCost& chosen = formats[choice.chosen];
  return {.index = choice.chosen,
          .reason = chosen.name + " at " + speed_text(chosen) + " and " + loss_text(chosen) + ": " +
                    describe_fast(formats, good, choice, "fit and lose at most " + bound) +
                    describe_too_large(formats, [](const FormatCost& format) {
                      return loss_of(format) <= kMostLoss;
                    })};
}

// "bf16, int8", and the checkpoint's own format.
std::string describe_safe(std::span<const FormatCost> formats) {
  std::string text = "bf16, int8";
  for (const FormatCost& format : formats) {
    if (format.is_own) text += ", and " + format.name + " as the checkpoint says";
  }
  return text;
}

FormatChoice choose_unmeasured(std::span<const FormatCost> formats, const Candidates& fitting) {
  const auto is_safe = [](const FormatCost& format) {
    return format.is_own || order_of(format) < kNumSafe;
  };
  Candidates safe;
  std::copy_if(fitting.begin(), fitting.end(), std::back_inserter(safe),
               [&](std::size_t i) { return is_safe(formats[i]); });
  if (!safe.empty()) {
    const FastChoice choice = choose_fast(formats, safe);
    const FormatCost& chosen = formats[choice.chosen];
    return {.index = choice.chosen,
            .reason = chosen.name + " at " + speed_text(chosen) + ": " +
                      describe_fast(formats, safe, choice,
                                    "fit and are taken without a measured price (" +
                                        describe_safe(formats) + ")") +
                      describe_too_large(formats, is_safe)};
  }
  const std::size_t first = *std::min_element(
      fitting.begin(), fitting.end(),
      [&](std::size_t a, std::size_t b) { return order_of(formats[a]) < order_of(formats[b]); });
  return {.index = first,
          .reason = formats[first].name + " at " + speed_text(formats[first]) +
                    ": neither bf16 nor int8 fits; what it loses is not measured for this "
                    "model"};
}

}  // namespace

bool has_8_bit_activations(WeightFormat format) {
  const MatrixFormat matrix = weights::matrix_format(format, weights::Role::kDecoderLinear);
  return matrix == MatrixFormat::kInt8Row || matrix == MatrixFormat::kInt4A8;
}

std::vector<bool> pareto_front(std::span<const FormatCost> formats) {
  std::vector<bool> is_on_front;
  for (const FormatCost& one : formats) {
    const bool is_dominated =
        std::any_of(formats.begin(), formats.end(),
                    [&](const FormatCost& other) { return other.fits && dominates(other, one); });
    is_on_front.push_back(one.fits && !is_dominated);
  }
  return is_on_front;
}

FormatChoice choose_format(std::span<const FormatCost> formats) {
  Candidates fitting;
  Candidates measured;
  std::int64_t num_here = 0;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].is_made) continue;
    ++num_here;
    if (!formats[i].fits || formats[i].format == WeightFormat::kF32) continue;
    fitting.push_back(i);
    if (formats[i].loss.has_value()) measured.push_back(i);
  }
  if (fitting.empty()) {
    return {.index = std::nullopt, .reason = "none of " + counted(num_here, "format") + " fits"};
  }
  return measured.empty() ? choose_unmeasured(formats, fitting)
                          : choose_measured(formats, measured);
}

}  // namespace caption::plan
