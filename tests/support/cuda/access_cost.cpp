#include "tests/support/cuda/access_cost.h"

#include <algorithm>
#include <array>

namespace caption::cuda_emulator {
namespace {

constexpr std::size_t kLanes = 32;
constexpr std::uintptr_t kSectorBytes = 32;
constexpr std::uintptr_t kWordBytes = 4;
constexpr std::uintptr_t kBanks = 32;

struct Units {
  std::int64_t taken = 0;
  std::int64_t least = 0;
};

// Sorts and removes duplicates; returns how many are left.
std::size_t count_distinct(std::uintptr_t* begin, std::size_t count) {
  std::sort(begin, begin + count);
  return static_cast<std::size_t>(std::unique(begin, begin + count) - begin);
}

Units count_sectors(std::span<const Access> lanes) {
  std::array<std::uintptr_t, 2 * kLanes> sectors;
  std::array<std::uintptr_t, kLanes> addresses;
  std::size_t num_sectors = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    addresses[i] = lanes[i].address;
    const std::uintptr_t last = lanes[i].address + lanes[i].size_bytes - 1;
    for (std::uintptr_t s = lanes[i].address / kSectorBytes; s <= last / kSectorBytes; ++s) {
      sectors[num_sectors++] = s;
    }
  }
  const std::size_t distinct_bytes =
      count_distinct(addresses.data(), lanes.size()) * lanes.front().size_bytes;
  return {.taken = static_cast<std::int64_t>(count_distinct(sectors.data(), num_sectors)),
          .least = static_cast<std::int64_t>((distinct_bytes + kSectorBytes - 1) / kSectorBytes)};
}

// Counts the wavefronts of lanes that are served together.
Units count_wavefronts(std::span<const Access> lanes) {
  std::array<std::uintptr_t, 4 * kLanes> words;
  std::size_t num_words = 0;
  for (const Access& access : lanes) {
    const std::uintptr_t last = access.address + access.size_bytes - 1;
    for (std::uintptr_t w = access.address / kWordBytes; w <= last / kWordBytes; ++w) {
      words[num_words++] = w;
    }
  }
  num_words = count_distinct(words.data(), num_words);
  std::array<std::int64_t, kBanks> in_bank{};
  for (std::size_t i = 0; i < num_words; ++i) ++in_bank[words[i] % kBanks];
  return {.taken = *std::max_element(in_bank.begin(), in_bank.end()),
          .least = static_cast<std::int64_t>((num_words + kBanks - 1) / kBanks)};
}

bool is_global(AccessKind kind) {
  return kind == AccessKind::kLoadGlobal || kind == AccessKind::kStoreGlobal;
}

}  // namespace

void AccessCosts::count(std::span<const Access> lanes) {
  const Access& first = lanes.front();
  InstructionCost& cost = costs_[{first.pc, first.kind}];
  cost.pc = first.pc;
  cost.kind = first.kind;
  cost.size_bytes = first.size_bytes;
  ++cost.requests;
  cost.lanes += static_cast<std::int64_t>(lanes.size());
  if (is_global(first.kind)) {
    const Units units = count_sectors(lanes);
    cost.units += units.taken;
    cost.least_units += units.least;
    return;
  }
  const std::size_t together = first.size_bytes <= 4 ? 32 : (first.size_bytes == 8 ? 16 : 8);
  for (std::size_t begin = 0; begin < lanes.size(); begin += together) {
    const Units units =
        count_wavefronts(lanes.subspan(begin, std::min(together, lanes.size() - begin)));
    cost.units += units.taken;
    cost.least_units += units.least;
  }
}

void AccessCosts::count_warp(std::span<std::vector<Access>* const> lanes) {
  std::array<std::size_t, kLanes> next{};
  std::array<Access, kLanes> together;
  for (;;) {
    const Access* lead = nullptr;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (next[i] == lanes[i]->size()) continue;
      const Access& access = (*lanes[i])[next[i]];
      if (lead == nullptr || access.pc < lead->pc) lead = &access;
    }
    if (lead == nullptr) break;
    std::size_t count = 0;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (next[i] == lanes[i]->size()) continue;
      const Access& access = (*lanes[i])[next[i]];
      if (access.pc != lead->pc || access.kind != lead->kind) continue;
      together[count++] = access;
      ++next[i];
    }
    this->count({together.data(), count});
  }
  for (std::vector<Access>* const accesses : lanes) accesses->clear();
}

std::vector<InstructionCost> AccessCosts::instructions() const {
  std::vector<InstructionCost> all;
  for (const auto& [key, cost] : costs_) all.push_back(cost);
  return all;
}

}  // namespace caption::cuda_emulator
