// Any bytes as a table of prices: an Error(kBadPreset), or a table that is written and read again
// as the same. Input: the file.
#include <string>

#include "plan/price_table.h"
#include "tests/fuzz/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size), {"table.json"});
  fuzz::expect_refusal_or_none({ErrorCode::kBadPreset}, [&] {
    const plan::PriceTable table = plan::read_price_table(folder.path() / "table.json");
    const auto path = plan::write_price_table(table, folder.path() / "written");
    fuzz::require(plan::read_price_table(path) == table, "a written table reads back the same");
  });
  return 0;
}
