#include "backend/cublas_lt.h"

#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"

using caption::CublasLt;
using caption::CublasLtShape;
using caption::Error;
using caption::Stream;
using caption::ThreadPool;

namespace {

// The fake library of this name (tests/backend/CMakeLists.txt).
std::string fake(const char* name) {
  return std::string(CAPTION_FAKE_CUDA_FOLDER) + "/libcaption_fake_cublas_lt_" + name + ".so";
}

std::unique_ptr<CublasLt> load(const std::vector<std::string>& paths, std::string* why) {
  std::vector<const char*> names;
  for (const std::string& path : paths) names.push_back(path.c_str());
  return CublasLt::load(names, why);
}

// i % 7 - 3, which bf16 holds exactly.
std::vector<std::uint16_t> small_integers(std::int64_t count) {
  std::vector<std::uint16_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(i % 7 - 3));
    numbers.push_back(static_cast<std::uint16_t>(bits >> 16U));
  }
  return numbers;
}

}  // namespace

TEST_SUITE_BEGIN("backend/cublas_lt");

TEST_CASE("a product by the library is that of row-major matrices") {
  constexpr CublasLtShape kShape{.rows = 3, .features = 4, .columns = 5};
  std::string why;
  const auto library = load({"/nowhere/libcublasLt.so.13", fake("good")}, &why);
  REQUIRE(library != nullptr);
  ThreadPool pool(1);
  Stream stream(pool);
  const CublasLt::Product product = library->plan(kShape);
  REQUIRE(product.num_algorithms() == 2);
  const auto x = small_integers(kShape.rows * kShape.columns);
  const auto weight = small_integers(kShape.features * kShape.columns);
  for (int algorithm = 0; algorithm < 2; ++algorithm) {
    std::vector<float> y(12, -1.0F);
    product.multiply(stream, algorithm, x.data(), weight.data(), y.data());
    for (std::int64_t row = 0; row < kShape.rows; ++row) {
      for (std::int64_t feature = 0; feature < kShape.features; ++feature) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < kShape.columns; ++k) {
          sum += ((row * kShape.columns + k) % 7 - 3) * ((feature * kShape.columns + k) % 7 - 3);
        }
        CHECK(y[static_cast<std::size_t>(row * kShape.features + feature)] ==
              static_cast<float>(sum));
      }
    }
  }
}

TEST_CASE("a library that is missing or does not start is told") {
  std::string why;
  CHECK(load({"/nowhere/libcublasLt.so.13"}, &why) == nullptr);
  CHECK(why.find("/nowhere/libcublasLt.so.13") != std::string::npos);
  CHECK(load({fake("stopped")}, &why) == nullptr);
  CHECK(why.ends_with("libcaption_fake_cublas_lt_stopped.so does not start: status 1"));
}

TEST_CASE("a library without an algorithm for a product is an error, and so is a failed product") {
  std::string why;
  const auto helpless = load({fake("helpless")}, &why);
  REQUIRE(helpless != nullptr);
  CHECK_THROWS_WITH_AS(helpless->plan({}), "cuBLASLt has no algorithm for a product", Error);
  const auto good = load({fake("good")}, &why);
  REQUIRE(good != nullptr);
  ThreadPool pool(1);
  Stream stream(pool);
  const CublasLt::Product of_f16 = good->plan({.is_bf16 = false});  // which the fake does not know
  const std::uint16_t number = 0;
  float y = 0;
  CHECK_THROWS_WITH_AS(of_f16.multiply(stream, 0, &number, &number, &y),
                       "cuBLASLt failed when it multiplied: status 7", Error);
}

TEST_SUITE_END();
