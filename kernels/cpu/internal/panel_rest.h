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

}  // namespace
}  // namespace caption::kernels::cpu
