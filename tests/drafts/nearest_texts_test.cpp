// Tests which texts count as those of the nearest things.
#include "drafts/nearest_texts.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace caption::drafts;

namespace {

using Ids = std::vector<std::int32_t>;
using Features = std::vector<float>;

Features random_features(std::mt19937& rng, std::size_t size) {
  std::normal_distribution<float> normal(0, 1);
  Features features(size);
  for (float& feature : features) feature = normal(rng);
  return features;
}

Features moved(const Features& features, const Features& by, float length) {
  Features sum = features;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += length * by[i];
  return sum;
}

double norm(const Sketch& sketch) {
  double squares = 0;
  for (const float value : sketch) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

}  // namespace

TEST_SUITE("drafts/nearest_texts") {
  TEST_CASE("a sketch has unit length, whatever the features, and does not see their scale") {
    std::mt19937 rng(1);
    for (const std::size_t size : {1U, 64U, 128U, 192U, 4096U}) {
      const Features features = random_features(rng, size);
      Features scaled = features;
      for (float& feature : scaled) feature *= 1000;
      const Sketch sketch = sketch_of(features);
      CHECK(norm(sketch) == doctest::Approx(1).epsilon(1e-6));
      const Sketch same = sketch_of(scaled);
      for (std::size_t i = 0; i < kSketch; ++i) {
        CHECK(same[i] == doctest::Approx(sketch[i]).epsilon(1e-5));
      }
    }
    CHECK(norm(sketch_of(Features(10, 0.0F))) == 0);
    CHECK(norm(sketch_of({})) == 0);
    const Features broken = {1, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity()};
    CHECK(norm(sketch_of(broken)) == doctest::Approx(1).epsilon(1e-6));
  }

  TEST_CASE("the nearest come first, those much farther are left out, and so are other topics") {
    std::mt19937 rng(2);
    const Features seen = random_features(rng, 192);
    const Features direction = random_features(rng, 192);
    NearestTexts texts(1 << 20);
    CHECK(texts.find(0, sketch_of(seen), 8).empty());
    // Distances of one direction keep their ratios in a sketch, for small ones.
    texts.add(0, sketch_of(moved(seen, direction, 0.013F)), Ids{13});
    texts.add(0, sketch_of(moved(seen, direction, 0.010F)), Ids{10});
    texts.add(0, sketch_of(moved(seen, direction, 0.020F)), Ids{20});
    texts.add(1, sketch_of(seen), Ids{99});
    texts.add(0, sketch_of(random_features(rng, 192)), Ids{1});
    texts.add(0, sketch_of(seen), Ids{});
    const auto found = texts.find(0, sketch_of(seen), 8);
    REQUIRE(found.size() == 2);
    CHECK(*found[0].text == Ids{10});
    CHECK(*found[1].text == Ids{13});
    REQUIRE(texts.find(0, sketch_of(seen), 1).size() == 1);
    CHECK(*texts.find(0, sketch_of(seen), 1)[0].text == Ids{10});
    texts.add(0, sketch_of(seen), Ids{7, 8});
    const auto equal = texts.find(0, sketch_of(seen), 8);
    REQUIRE(equal.size() == 1);
    CHECK(*equal[0].text == Ids{7, 8});
    CHECK(equal[0].squared_distance == 0);
    CHECK(found[0].squared_distance > 0);
    CHECK(found[0].squared_distance < found[1].squared_distance);
  }

  TEST_CASE("what is near of random features is near in their sketches") {
    std::mt19937 rng(3);
    NearestTexts texts(1 << 24);
    std::vector<Features> things;
    for (std::int32_t i = 0; i < 500; ++i) {
      things.push_back(random_features(rng, 1000));
      texts.add(5, sketch_of(things.back()), Ids{i});
    }
    for (std::int32_t i = 0; i < 500; i += 25) {
      // A tenth of the length away, where other things are at sqrt(2) times the length: a sketch's
      // relative error is 1 / 8.
      const Features near =
          moved(things[static_cast<std::size_t>(i)], random_features(rng, 1000), 0.1F);
      const auto found = texts.find(5, sketch_of(near), 8);
      REQUIRE(found.size() == 1);
      CHECK(*found[0].text == Ids{i});
    }
  }

  TEST_CASE("memory is bounded: the oldest are forgotten") {
    constexpr std::int64_t kBytes = 100'000;
    std::mt19937 rng(4);
    NearestTexts texts(kBytes);
    Features first = random_features(rng, 128);
    texts.add(0, sketch_of(first), Ids{-1});
    for (std::int32_t i = 0; i < 1000; ++i) {
      texts.add(0, sketch_of(random_features(rng, 128)), Ids(static_cast<std::size_t>(i % 60), i));
      CHECK(texts.size_bytes() <= kBytes);
    }
    CHECK(texts.size_bytes() > kBytes / 2);
    CHECK(*texts.find(0, sketch_of(first), 1).at(0).text != Ids{-1});
    texts.add(0, sketch_of(first), Ids(kBytes, 1));  // could not be held alone
    CHECK(texts.size_bytes() <= kBytes);
    CHECK(texts.find(0, sketch_of(first), 1).at(0).text->size() < 60);
  }
}
