#include "tensor/shape.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "base/error.h"

using caption::Error;
using caption::Shape;

TEST_SUITE_BEGIN("tensor/shape");

TEST_CASE("knows its extents from both ends") {
  const Shape shape{2, 3, 5};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 2);
  CHECK(shape.num_elements() == 30);
  CHECK(shape.to_string() == "[2, 3, 5]");
}

TEST_CASE("of rank 0 is one element, with a zero extent none") {
  CHECK(Shape{}.num_elements() == 1);
  CHECK(Shape{}.to_string() == "[]");
  CHECK(Shape{4, 0, 7}.num_elements() == 0);
}

TEST_CASE("compares rank and extents") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{} == Shape{0});
}

TEST_CASE("a product beyond 63 bits is an error, not a small number") {
  constexpr std::int64_t kBig = std::int64_t{1} << 32;
  CHECK((Shape{kBig, kBig / 4}.num_elements() == kBig * (kBig / 4)));
  CHECK_THROWS_AS((Shape{kBig, kBig}.num_elements()), Error);
  CHECK_THROWS_AS((Shape{std::numeric_limits<std::int64_t>::max(), 2}.num_elements()), Error);
  // In 64-bit arithmetic both products, 2^64 and 3 * 2^65, would wrap around to 0.
  CHECK_THROWS_AS((Shape{kBig, kBig, 1}.num_elements()), Error);
  CHECK_THROWS_AS((Shape{kBig, 2, kBig, 1, 3}.num_elements()), Error);
  CHECK((Shape{kBig, kBig, 0}.num_elements() == 0));
}

TEST_CASE("negative extents and a sixth axis are refused") {
  CHECK_THROWS_AS((Shape{2, -1}), Error);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1}), Error);
}

TEST_SUITE_END();
