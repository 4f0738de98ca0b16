// Packing the words of a file that hold codes of whole panels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/panel_rows.h"

namespace caption::kernels::cpu {
namespace {

// Packs some panels at a time, so that their columns stay in the second-level cache.
void pack_in_order(const Tier& tier, PanelWordsArgs words, const std::vector<std::int32_t>& order) {
  constexpr std::int64_t kMostColumnBytes = 256 << 10;
  const std::int64_t panel_bytes = words.num_columns * kOrderedColumnBytes;
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kMostColumnBytes / panel_bytes, 1, words.num_panels);
  const auto columns = std::make_unique_for_overwrite<std::uint8_t[]>(
      static_cast<std::size_t>(at_once * panel_bytes));
  constexpr std::int64_t kWordBytes = 4;
  for (std::int64_t left = words.num_panels; left > 0; left -= words.num_panels) {
    words.num_panels = std::min(at_once, left);
    tier.pack_ordered_words({.words = words,
                             .order = order.data(),
                             .columns = columns.get(),
                             .num_following = std::min(at_once, left - words.num_panels)});
    words.words += words.num_panels * kPanelFeatures * kWordBytes;
    words.to += words.num_panels * words.panel_bytes;
  }
}

}  // namespace

void pack_file_words(const Tier& tier, const QuantisedMatrix& part, std::uint8_t* to,
                     std::int64_t panel_bytes) {
  const PanelWordsArgs args{.words = part.file_codes.words,
                            .stride_bytes = part.file_codes.stride_bytes,
                            .num_columns = part.num_columns,
                            .num_panels = part.num_rows() / kPanelFeatures,
                            .to = to,
                            .panel_bytes = panel_bytes};
  switch (part.file_codes.order) {
    case CodeOrder::kWordsOfColumns: return tier.pack_words_of_columns(args);
    case CodeOrder::kWordsOfMatrixColumns: return pack_in_order(tier, args, *part.column_order);
    case CodeOrder::kWordsOfRows: return tier.pack_words_of_rows(args);
    case CodeOrder::kRows:
    case CodeOrder::kRowsOddFirst:
    case CodeOrder::kBlocks: break;
  }
  CAPTION_CHECK(false, "codes of a file that are not words");
}

}  // namespace caption::kernels::cpu
