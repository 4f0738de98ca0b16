#include "plan/cards.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace caption::plan {
namespace {

constexpr std::int64_t kMiB = 1LL << 20;

// NVIDIA's data sheets of T4, L4, A100 40GB PCIe and H100 SXM; memory as nvidia-smi shows it.
constexpr std::array kCards = {
    Card{"t4", "NVIDIA T4 (16 GB)", 15109 * kMiB, 320e9, 65e12, 130e12, 65e12, 75},
    Card{"l4", "NVIDIA L4 (24 GB)", 23034 * kMiB, 300e9, 121e12, 242e12, 242e12, 89},
    Card{"a100", "NVIDIA A100 (40 GB)", 40536 * kMiB, 1555e9, 312e12, 624e12, 312e12, 80},
    Card{"h100", "NVIDIA H100 SXM (80 GB)", 81559 * kMiB, 3350e9, 989e12, 1979e12, 989e12, 90},
};

}  // namespace

std::optional<Card> find_card(std::string_view name) {
  const auto equal = [&](const Card& card) {
    const std::string_view other = card.preset;
    return std::equal(
        name.begin(), name.end(), other.begin(), other.end(),
        [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  const auto card = std::find_if(kCards.begin(), kCards.end(), equal);
  return card == kCards.end() ? std::nullopt : std::optional<Card>(*card);
}

std::vector<std::string_view> card_names() {
  std::vector<std::string_view> names;
  for (const Card& card : kCards) names.emplace_back(card.preset);
  return names;
}

}  // namespace caption::plan
