#include "model/internal/placing_order.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace caption::model {
namespace {

using Order = std::vector<std::size_t>;

TEST_SUITE("model/placing_order") {
  TEST_CASE("tensors that are not stored come first, then the largest") {
    CHECK(placing_order({}).empty());
    const std::vector<TensorToPlace> tensors = {{true, 5}, {false, 1}, {true, 9},
                                                {true, 5}, {false, 7}, {true, 0}};
    CHECK(placing_order(tensors) == Order{1, 4, 2, 0, 3, 5});
  }
}

}  // namespace
}  // namespace caption::model
