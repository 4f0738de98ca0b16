// The table of bench --kernels --predict.
#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"
#include "base/figures.h"
#include "base/units.h"
#include "bench/cuda_prediction.h"
#include "bench/internal/cuda_codes.h"

namespace caption::bench {
namespace {

using Cells = std::array<std::string, 8>;
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
          work.products > 0 ? format_si(4096 * work.products) : "-",
          format_number(time.seconds * 1e6),
          std::string(time.limit),
          format_percent(time.share)};
}

std::string aligned(const std::vector<Cells>& lines) {
  std::array<std::size_t, std::tuple_size_v<Cells>> widths{};
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += i == 0 ? "" : "  ";
      text += i < kNumNames ? pad_right(line[i], widths[i]) : pad_left(line[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

// The step's time, and how much of the card's rates it uses.
std::string describe_step(const CudaCard& card, const CudaStep& step, std::int64_t num_layers,
                          const std::vector<CudaWork>& works) {
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
      step.name + ": " + format_number(seconds * 1e3) + " ms, " +
      format_percent(dram_bytes / card.bytes_per_s / seconds) + " of the bandwidth, " +
      format_percent(4096 * products / card.flops_per_s() / seconds) +
      " of the rate of mma.sync; " + std::to_string(launches) +
      (step.is_graph() ? " launches in a graph, " : " launches, ") +
      format_number(static_cast<double>(launches) / static_cast<double>(num_layers)) +
      " per layer, " + format_number(1e3 * launch_seconds) + " ms of them\n";
  if (without_kernel > 0) {
    text += "at least: " + std::to_string(without_kernel) + " of " + std::to_string(works.size()) +
            " operations are not modelled, but counted at the card's rates\n";
  }
  return text;
}

}  // namespace

std::string prediction_table(std::string_view card_name, const std::string& subject,
                             const model::DecoderSpec& shape, weights::WeightFormat weights) {
  const CudaCard* const card = find_cuda_card(card_name);
  if (card == nullptr) {
    throw Error(ErrorCode::kUsage, "bench: --predict: no card " + std::string(card_name));
  }
  if (!is_predicted(weights)) {
    throw Error(ErrorCode::kUsage, "bench: --predict has no figures of " +
                                       std::string(weights::describe(weights)) +
                                       " weights; it has those of bf16, int8, int4, nf4 and awq");
  }
  const MatrixFormat format = matrix_format(weights, weights::Role::kDecoderLinear);
  std::string text = subject + " on " + std::string(card_name) + ", predicted, " +
                     (has_codes(format) ? std::string(weights::describe(weights)) : "16-bit") +
                     " weights: " + format_si(card->bytes_per_s) + "B/s, " +
                     format_si(card->flops_per_s()) + "FLOP/s by mma.sync\n";
  for (const CudaStep& step : predicted_steps()) {
    const std::vector<CudaWork> works = list_operations(*card, shape, step, weights);
    std::vector<Cells> lines = {
        {"operation", "kernel", "launches", "DRAM", "FLOP", "us", "limit", "share"}};
    for (const CudaWork& work : works) lines.push_back(cells_of(*card, work));
    text += "\n" + describe_step(*card, step, shape.num_layers, works) + aligned(lines);
  }
  return text;
}

}  // namespace caption::bench
