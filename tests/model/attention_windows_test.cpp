// Windows of attention compared with the reference's index arithmetic.
#include "model/internal/attention_windows.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

namespace caption {
namespace {

using model::AttentionWindows;
using model::divide_into_windows;
using model::EqualWindows;

TEST_SUITE("model/attention_windows") {
  TEST_CASE("windows of equal size follow each other") {
    const AttentionWindows found = divide_into_windows(3, 5, 2);
    CHECK(found.sizes == std::vector<EqualWindows>{{2, 4}, {1, 2}, {2, 2}, {1, 1}});
    CHECK(found.order ==
          std::vector<std::int32_t>{0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14});
    CHECK(divide_into_windows(4, 6, 2).sizes == std::vector<EqualWindows>{{6, 4}});
    CHECK(divide_into_windows(2, 3, 9).sizes == std::vector<EqualWindows>{{1, 6}});
    CHECK(divide_into_windows(1, 1, 1).order == std::vector<std::int32_t>{0});
  }

  // The reference gives the unit (row, column) to window (row / edge, column / edge).
  TEST_CASE("every unit is in the window of its place, once") {
    for (const std::int64_t rows : {1, 2, 4, 7, 13}) {
      for (const std::int64_t columns : {1, 3, 4, 8, 11}) {
        for (const std::int64_t edge : {1, 2, 4, 20}) {
          CAPTURE(rows);
          CAPTURE(columns);
          CAPTURE(edge);
          std::map<std::pair<std::int64_t, std::int64_t>, std::set<std::int32_t>> want;
          for (std::int64_t unit = 0; unit < rows * columns; ++unit) {
            want[{unit / columns / edge, unit % columns / edge}].insert(
                static_cast<std::int32_t>(unit));
          }
          const AttentionWindows found = divide_into_windows(rows, columns, edge);
          REQUIRE(std::ssize(found.order) == rows * columns);
          CHECK(found.sizes.size() <= 4);
          auto next = found.order.begin();
          std::size_t windows = 0;
          for (const EqualWindows& equal : found.sizes) {
            for (std::int64_t i = 0; i < equal.num_windows; ++i, ++windows) {
              const std::set<std::int32_t> units(next, next + equal.window_units);
              const std::int32_t first = *next;
              CHECK(units == want[{first / columns / edge, first % columns / edge}]);
              next += equal.window_units;
            }
          }
          CHECK(windows == want.size());
          CHECK(next == found.order.end());
        }
      }
    }
  }
}

}  // namespace
}  // namespace caption
