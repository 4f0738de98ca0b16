#include "bench/cuda_prediction.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/ascii.h"
#include "plan/cards.h"

namespace caption::bench {
namespace {

CudaCard predicted_card(const plan::Card& card) {
  const plan::Multiprocessors& sms = card.multiprocessors;
  return {.name = card.name,
          .architecture = card.compute_capability,
          .num_sms = sms.count,
          .clock_hz = sms.clock_hz,
          .bytes_per_s = card.bytes_per_s,
          .l2_bytes = sms.l2_bytes,
          .l2_bytes_per_clock = sms.l2_bytes_per_clock,
          .clocks_per_product = sms.clocks_per_product,
          .clocks_of_warpgroups = sms.clocks_of_warpgroups};
}

}  // namespace

std::span<const CudaCard> cuda_cards() {
  static const std::vector<CudaCard> cards = [] {
    std::vector<CudaCard> predicted;
    for (const plan::Card& card : plan::cards()) predicted.push_back(predicted_card(card));
    return predicted;
  }();
  return cards;
}

const CudaCard* find_cuda_card(std::string_view name) {
  const std::span<const CudaCard> cards = cuda_cards();
  const auto found = std::find_if(cards.begin(), cards.end(), [&](const CudaCard& card) {
    return equal_ignoring_case(name, card.name);
  });
  return found == cards.end() ? nullptr : &*found;
}

CudaTime predict(const CudaCard& card, const CudaWork& work) {
  const double rounds = std::ceil(work.blocks / card.num_sms);
  const double busy_sms = work.blocks > 0 ? work.blocks / rounds : card.num_sms;
  const double clocks_per_s = busy_sms * card.clock_hz;
  const double quarters = work.warps > 0 ? std::min(work.warps, 4.0) : 4;
  const double bytes_per_s_in_flight = busy_sms * work.bytes_in_flight / kLatencySeconds;
  const bool waits = work.bytes_in_flight > 0 && bytes_per_s_in_flight < card.bytes_per_s;
  const double clocks_per_product =
      work.has_warpgroups ? card.clocks_of_warpgroups : card.clocks_per_product;
  const CudaTime limits[] = {
      {work.dram_bytes / (waits ? bytes_per_s_in_flight : card.bytes_per_s),
       waits ? "bytes in flight" : "DRAM"},
      {work.l2_bytes / (card.l2_bytes_per_clock * clocks_per_s), "L2"},
      {work.wavefronts / clocks_per_s, "L1"},
      {work.products * clocks_per_product / (quarters * clocks_per_s), "tensor cores"},
      {work.instructions / (quarters * clocks_per_s), "issue"},
  };
  CudaTime time =
      *std::max_element(std::begin(limits), std::end(limits),
                        [](const CudaTime& a, const CudaTime& b) { return a.seconds < b.seconds; });
  const double least = time.seconds;
  time.seconds += work.launch_seconds * static_cast<double>(work.launches) + work.wait_seconds;
  time.share = least / time.seconds;
  return time;
}

std::vector<CudaStep> predicted_steps() {
  constexpr std::int64_t kPromptTokens = 4608;
  std::vector<CudaStep> steps = {{.name = "prefill of 4,608 tokens",
                                  .new_tokens = kPromptTokens,
                                  .context_tokens = kPromptTokens}};
  const auto decoding = [&steps](std::int64_t sequences, std::int64_t tokens, const char* text) {
    steps.push_back({.name = "decoding of " + std::to_string(sequences) +
                             (sequences == 1 ? " sequence" : " sequences") + " of " + text +
                             " tokens",
                     .num_sequences = sequences,
                     .context_tokens = tokens});
  };
  for (const std::int64_t sequences : {1, 16, 64}) decoding(sequences, 1280, "1,280");
  for (const std::int64_t sequences : {1, 16}) decoding(sequences, 8192, "8,192");
  steps.push_back({.name = "decoding of 16 requests in 4 beams of 1,280 tokens",
                   .num_sequences = 64,
                   .context_tokens = 1280,
                   .num_beams = 4});
  for (const std::int64_t sequences : {16, 64}) {
    steps.push_back({.name = "decoding of " + std::to_string(sequences) +
                             " sequences of 1,280 tokens, of which all share 512",
                     .num_sequences = sequences,
                     .context_tokens = 1280,
                     .sharing_sequences = sequences,
                     .shared_tokens = 512});
  }
  steps.push_back({.name = "decoding of 16 requests in 4 beams of 1,280 tokens that share 1,152",
                   .num_sequences = 64,
                   .context_tokens = 1280,
                   .num_beams = 4,
                   .sharing_sequences = 4,
                   .shared_tokens = 1152});
  return steps;
}

}  // namespace caption::bench
