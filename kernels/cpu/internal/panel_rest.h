// kernels/cpu/internal/panel_rest.h: what the tiers' packing functions share.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

// The arguments for what is behind `done` bytes of each row, which hold `done_length` of the
// length and became `done_to` bytes of the panel.
class Rest {
 public:
  Rest(const PanelRowsArgs& args, std::int64_t done, std::int64_t done_length, std::int64_t done_to)
      : args_(args) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      rows_[n] = args.rows[n] == nullptr ? nullptr : args.rows[n] + done;
    }
    args_.rows = rows_;
    args_.length -= done_length;
    args_.to = static_cast<std::uint8_t*>(args.to) + done_to;
  }
  const PanelRowsArgs& args() const { return args_; }

 private:
  const std::uint8_t* rows_[kPanelColumns];
  PanelRowsArgs args_;
};

// Returns where the rows of the next panel begin, which follow those of this one. They are fetched
// into the second-level cache while this panel is packed, line after line as they lie in memory:
// the memory gives neighbouring lines faster than one line of each row, and the processor's
// prefetchers follow fewer streams than a panel has rows. Fetching from where no memory is does
// nothing.
inline const std::uint8_t* next_panel(const std::uint8_t* const* rows) {
  return rows[0] + kPanelColumns * (rows[1] - rows[0]);
}

// Returns the distance from byte `at` of a row to the line that is fetched now and read later:
// the row's line `lines` further on, or a first one of the same row of the next panel. The
// processor's prefetchers follow fewer streams than a panel has rows. Fetching from where no memory
// is does nothing.
inline std::int64_t bytes_ahead(const std::uint8_t* const* rows, std::int64_t row_bytes,
                                std::int64_t at, std::int64_t lines) {
  constexpr std::int64_t kFetchedBytes = 64;
  const std::int64_t distance = lines * kFetchedBytes;
  if (at + distance + kFetchedBytes <= row_bytes) return distance;
  const auto first = reinterpret_cast<std::intptr_t>(rows[0]);
  const auto second = reinterpret_cast<std::intptr_t>(rows[1]);
  return kPanelColumns * (second - first) + distance - row_bytes;
}

}  // namespace
}  // namespace caption::kernels::cpu
