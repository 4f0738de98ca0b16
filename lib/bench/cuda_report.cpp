// The table of bench --kernels --predict.
#include <algorithm>

#include <vector>

#include "base/error.h"
#include "base/figures.h"
#include "base/units.h"
#include "bench/cuda_prediction.h"
#include "bench/internal/cuda_codes.h"
#include "bench/internal/cuda_integers.h"
#include "bench/internal/report_parts.h"

namespace caption::bench {
namespace {

using Cells = std::vector<std::string>;
constexpr std::size_t kNumNames = 2;  // columns of text, aligned left; the others are numbers

constexpr const char* kNoKernel = "not modelled";

std::string bytes_text(double bytes) {
  return bytes > 0 ? format_bytes(static_cast<std::int64_t>(bytes)) : "-";
}

Cells cells_of(const CudaCard& card, const CudaWork& work) {
  const CudaTime time = predict(card, work);
  return {work.operation,
          work.kernel.empty() ? kNoKernel : work.kernel,
          std::to_string(work.launches),
          bytes_text(work.dram_bytes),
          work.products > 0 ? format_si(work.product_flops * work.products) : "-",
          format_number(time.seconds * 1e6),
          std::string(time.limit),
          format_percent(time.share)};
}

// The time of attention, its launches included, and the greater of its shares of the card's rates.
std::string describe_attention(const CudaCard& card, std::int64_t num_layers,
                               const std::vector<CudaWork>& works) {
  double seconds = 0;
  double launching = 0;
  double dram_bytes = 0;
  double products = 0;
  for (const CudaWork& work : works) {
    if (!work.operation.ends_with("attention")) continue;
    seconds += predict(card, work).seconds;
    launching += work.launch_seconds * static_cast<double>(work.launches);
    dram_bytes += work.dram_bytes;
    products += work.products;
  }
  if (seconds == 0) return "";
  const double of_dram = dram_bytes / card.bytes_per_s;
  const double of_tensor = 4096 * products / card.flops_per_s();
  const double least = std::max(of_dram, of_tensor);
  return "attention: " + format_number(seconds * 1e6 / static_cast<double>(num_layers)) +
         " us per layer, " + format_percent(least / seconds) +
         (of_dram >= of_tensor ? " of the bandwidth" : " of the tensor cores' rate") +
         "; without the launches' own time " + format_percent(least / (seconds - launching)) + "\n";
}

// The step's time, and how much of the card's rates it uses.
std::string describe_step(const CudaCard& card, const std::string& step, bool is_graph,
                          std::int64_t num_layers, const std::vector<CudaWork>& works) {
  double seconds = 0;
  double dram_bytes = 0;
  double products = 0;
  std::int64_t launches = 0;
  double launch_seconds = 0;
  std::int64_t without_kernel = 0;
  for (const CudaWork& work : works) {
    seconds += predict(card, work).seconds;
    dram_bytes += work.dram_bytes;
    products += work.products;
    launches += work.launches;
    launch_seconds += work.launch_seconds * static_cast<double>(work.launches);
    without_kernel += work.kernel.empty() ? 1 : 0;
  }
  std::string text =
      step + ": " + format_number(seconds * 1e3) + " ms, " +
      format_percent(dram_bytes / card.bytes_per_s / seconds) + " of the bandwidth, " +
      format_percent(4096 * products / card.flops_per_s() / seconds) +
      " of the tensor cores' rate; " + std::to_string(launches) +
      (is_graph ? " launches in a graph, " : " launches, ") +
      format_number(static_cast<double>(launches) / static_cast<double>(num_layers)) +
      " per layer, " + format_number(1e3 * launch_seconds) + " ms of them\n";
  text += describe_attention(card, num_layers, works);
  if (without_kernel > 0) {
    text += "at least: " + std::to_string(without_kernel) + " of " + std::to_string(works.size()) +
            " operations are not modelled, but counted at the card's rates\n";
  }
  return text;
}

const CudaCard& require_card(std::string_view name) {
  const CudaCard* const card = find_cuda_card(name);
  if (card == nullptr) {
    throw Error(ErrorCode::kUsage, "bench: --predict: no card " + std::string(name));
  }
  return *card;
}

std::string title(const CudaCard& card, const std::string& subject, const std::string& weights) {
  const bool has_more = card.flops_per_s() > card.flops_by_mma_per_s();
  return subject + " on " + card.name + ", predicted, " + weights +
         " weights: " + format_si(card.bytes_per_s) + "B/s, " + format_si(card.flops_per_s()) +
         "FLOP/s" + (has_more ? ", " + format_si(card.flops_by_mma_per_s()) + "FLOP/s" : "") +
         " by mma.sync\n";
}

std::string step_table(const CudaCard& card, const std::string& step, bool is_graph,
                       std::int64_t num_layers, const std::vector<CudaWork>& works) {
  std::vector<Cells> lines = {
      {"operation", "kernel", "launches", "DRAM", "FLOP", "us", "limit", "share"}};
  for (const CudaWork& work : works) lines.push_back(cells_of(card, work));
  return "\n" + describe_step(card, step, is_graph, num_layers, works) + aligned(lines, kNumNames);
}

}  // namespace

std::string prediction_table(std::string_view card_name, const std::string& subject,
                             const model::DecoderSpec& shape, weights::WeightFormat weights) {
  const CudaCard& card = require_card(card_name);
  const MatrixFormat format = matrix_format(weights, weights::Role::kDecoderLinear);
  const Context context{.device = Device::kCuda, .compute_capability = card.architecture};
  if (const auto obstacle = weights::find_obstacle(context, weights)) {
    throw Error(ErrorCode::kUnavailable, *obstacle);
  }
  const bool is_quantised =
      has_codes(format) || has_integer_products(format) || format == MatrixFormat::kE4M3Row;
  std::string text =
      title(card, subject, is_quantised ? std::string(weights::describe(weights)) : "16-bit");
  for (const CudaStep& step : predicted_steps()) {
    text += step_table(card, step.name, step.is_graph(), shape.num_layers,
                       list_operations(card, shape, step, weights));
  }
  return text;
}

std::string tower_prediction_table(std::string_view card_name, const std::string& subject,
                                   const model::VisionSpec& shape) {
  constexpr std::int64_t kFrames = 64;
  const CudaCard& card = require_card(card_name);
  if (shape.image_px == 0) {
    throw Error(ErrorCode::kUsage, "bench: --predict: " + subject +
                                       " takes frames of any size; only towers of one size, such "
                                       "as clip-l-336, are predicted");
  }
  return title(card, subject, "16-bit") + step_table(card, std::to_string(kFrames) + " frames",
                                                     false, shape.num_layers,
                                                     list_tower_operations(card, shape, kFrames));
}

}  // namespace caption::bench
