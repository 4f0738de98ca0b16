#include "model/internal/placed_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "weights/source.h"

namespace caption::model {
namespace {

// Most of them are no numbers of bf16.
float number_at(std::int64_t i) {
  constexpr std::int64_t kPrime = 7919;
  return static_cast<float>(i * kPrime % 100'003 - 50'000) / 3;
}

// A matrix of codes whose rows are decoded when they are asked for.
class DecodedSource : public weights::Source {
 public:
  explicit DecodedSource(Shape shape, std::int64_t broken_row = -1)
      : shape_(std::move(shape)), broken_row_(broken_row) {}

  std::string name() const override { return "decoded"; }
  bool has(std::string_view) const override { return true; }
  std::vector<std::string> names() const override { return {"matrix"}; }
  std::optional<Shape> shape(std::string_view) const override { return shape_; }
  ConstView read(std::string_view, const Shape&) override { return {}; }
  void release(std::string_view) override {}
  bool has_decodable_rows(std::string_view) const override { return true; }
  void decode_rows(std::string_view, std::int64_t first, std::int64_t count,
                   float* to) const override {
    if (first <= broken_row_ && broken_row_ < first + count) {
      throw Error(ErrorCode::kBadModel, "a broken row");
    }
    for (std::int64_t i = 0; i < count * shape_[1]; ++i) to[i] = number_at(first * shape_[1] + i);
    const std::lock_guard lock(mutex_);
    num_rows_ += count;
    if (count > 1) most_numbers_ = std::max(most_numbers_, count * shape_[1]);
  }
  Sha256 content_hash(const DigestCache&) const override { return {}; }
  std::optional<std::string> find_changed_file() const override { return std::nullopt; }

  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t most_numbers() const { return most_numbers_; }

 private:
  Shape shape_;
  std::int64_t broken_row_;
  mutable std::mutex mutex_;
  mutable std::int64_t num_rows_ = 0;      // rows decoded in all
  mutable std::int64_t most_numbers_ = 0;  // most numbers of several rows decoded at a time
};

const Shape kShapes[] = {{1, 1}, {5, 7}, {100, 2048}, {33, 1000}, {3, 40'000}};

}  // namespace

TEST_SUITE("placed_rows") {
  TEST_CASE("decoded rows are rounded to nearest even, each once, few at a time") {
    for (const Shape& shape : kShapes) {
      for (const int num_threads : {1, 2, 5}) {
        CAPTURE(shape.to_string());
        CAPTURE(num_threads);
        ThreadPool pool(num_threads);
        Stream stream(pool);
        const DecodedSource source(shape);
        const Tensor rounded = round_decoded_rows(stream, source, "matrix", shape);
        REQUIRE(rounded.dtype() == DType::kBF16);
        REQUIRE(rounded.shape() == shape);
        std::int64_t num_different = 0;
        for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
          const float expected = to_float(from_float<BF16>(number_at(i)));
          num_different += to_float(rounded.as<BF16>()[i]) == expected ? 0 : 1;
        }
        CHECK(num_different == 0);
        CHECK(source.num_rows() == shape[0]);
        CHECK(source.most_numbers() <= 32 << 10);
      }
    }
  }

  TEST_CASE("an error of a row is passed on") {
    ThreadPool pool(2);
    Stream stream(pool);
    const DecodedSource source({100, 2048}, 70);
    CHECK_THROWS_AS(round_decoded_rows(stream, source, "matrix", {100, 2048}), Error);
  }
}

}  // namespace caption::model
