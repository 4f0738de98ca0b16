#include "plan/cards.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"

namespace caption::plan {
namespace {

constexpr std::int64_t kMiB = 1LL << 20;

constexpr std::array kCards = {
    Card{"t4", "NVIDIA T4 (16 GB)", 15109 * kMiB, 320e9, 65e12, 130e12, 65e12, 75,
         Multiprocessors{40, 1.59e9, 4e6, 20, 16}},
    Card{"l4", "NVIDIA L4 (24 GB)", 23034 * kMiB, 300e9, 121e12, 242e12, 242e12, 89,
         Multiprocessors{58, 2.04e9, 48e6, 32, 16}},
    Card{"a100", "NVIDIA A100 (40 GB)", 40536 * kMiB, 1555e9, 312e12, 624e12, 312e12, 80,
         Multiprocessors{108, 1.41e9, 40e6, 47, 8}},
    Card{"h100", "NVIDIA H100 SXM (80 GB)", 81559 * kMiB, 3350e9, 989e12, 1979e12, 989e12, 90,
         Multiprocessors{132, 1.83e9, 50e6, 40, 6.4, 4}},
    Card{"h200", "NVIDIA H200 SXM (141 GB)", 143771 * kMiB, 4800e9, 989e12, 1979e12, 989e12, 90,
         Multiprocessors{132, 1.83e9, 50e6, 40, 6.4, 4}},
};

}  // namespace

std::span<const Card> cards() { return kCards; }

std::optional<Card> find_card(std::string_view name) {
  const auto card = std::find_if(kCards.begin(), kCards.end(), [&](const Card& candidate) {
    return equal_ignoring_case(name, candidate.name);
  });
  return card == kCards.end() ? std::nullopt : std::optional<Card>(*card);
}

std::vector<std::string_view> card_names() {
  std::vector<std::string_view> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  return names;
}

}  // namespace caption::plan
