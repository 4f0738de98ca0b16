// plan/format_choice.h: which of several formats of a model's weights to run, by memory, speed and
// measured loss.
//
// The rule, in this order:
//   1. Formats that do not fit are left out, and so are checkpoints that are yet to be made, and
//      f32: bf16 takes half the memory.
//   2. With measured losses (plan/price_table.h): the fastest of the formats that lose at most
//      kMostLoss. If none does, the one that loses least.
//   3. Without: the fastest of bf16, int8 and the format in which the checkpoint says that it is
//      multiplied (w8a8, FormatCost::is_own); if none of them fits, the first that does of w8a8,
//      fp8, int4, nf4, w4a8 and the formats with 4-bit heads. A format of 4 bits, or one that
//      rounds activations, is not chosen on a guess while another one fits: what it costs differs
//      between models by an order of magnitude (arXiv:2208.07339, arXiv:2210.17323).
//   4. Speeds within kEqualSpeed of each other count as equal, because predictions are bounds and
//      the measured rates of a machine vary; then the lowest loss counts, or, without losses, the
//      first of the formats as they are listed under 3.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/format.h"

namespace caption::plan {

// Largest acceptable mean KL(f32 || format) in nats per token. With Pinsker's inequality the total
// variation between the two distributions of a token is then at most sqrt(0.02 / 2) = 0.1 on
// average: at most one token in ten would be drawn differently. The formats of the demonstration
// model, which is sure of its sentences, lose 1e-7 (bf16) to 3e-4 (w4a8-head4) and score at most
// 0.002 lower in meteor-ko (README, from 9,029 positions and 200 clips): all are acceptable.
inline constexpr double kMostLoss = 0.02;
// A speed of at least 1 - kEqualSpeed of the fastest counts as equal to it.
inline constexpr double kEqualSpeed = 0.05;

// What a format costs on one machine, for one model and batch.
struct FormatCost {
  weights::WeightFormat format = weights::WeightFormat::kF32;
  std::string name;  // as --dtype names it
  bool fits = true;
  std::int64_t memory_bytes = 0;    // everything that a run holds
  double videos_per_s = 0;          // predicted
  std::optional<double> loss = {};  // mean KL in nats per token; not set if not measured
  // Whether the checkpoint says that its weights are multiplied so: its maker has weighed the loss.
  bool is_own = false;
  // Whether it is that of a checkpoint that `caption-cli quantize` would first have to make.
  bool is_made = false;
};

// Whether a model in the format is multiplied by activations that are integers of 8 bits.
bool has_8_bit_activations(weights::WeightFormat format);

// Whether each of the formats is on the Pareto front of those that fit: no other one that fits is
// as good in memory, speed and loss and better in one of them. A loss that is not measured counts
// as infinite.
std::vector<bool> pareto_front(std::span<const FormatCost> formats);

struct FormatChoice {
  std::optional<std::size_t> index;  // not set if none of the formats fits, f32 left aside
  std::string reason;                // one sentence with the figures
};

// Chooses by the rule above.
FormatChoice choose_format(std::span<const FormatCost> formats);

}  // namespace caption::plan
