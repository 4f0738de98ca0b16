// Scales of quantised checkpoints that are 0, negative or no numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tests/weights/quantised_files.h"

namespace caption::weights {
namespace {

using namespace testing;

struct Case {
  const char* group;
  const char* golden;
  const char* tensor;
  std::size_t bytes;  // size of a number
};

std::filesystem::path path_of(const Case& c) { return quantised_golden(c.group, c.golden); }

Shape shape_of(const Case& c) { return ExpectedWeights(path_of(c)).weight().shape(); }

// The golden with its first `count` scales replaced by the number whose upper two bytes are `bits`
// and whose lower ones, if it has some, are 0.
QuantisedFiles with_scales(const Case& c, std::uint16_t bits, std::size_t count = SIZE_MAX) {
  QuantisedFiles files(path_of(c));
  const std::span<std::uint8_t> scales = files.bytes_of(c.tensor);
  for (std::size_t i = 0; i < std::min(count, scales.size() / c.bytes); ++i) {
    const std::span<std::uint8_t> number = scales.subspan(i * c.bytes, c.bytes);
    std::ranges::fill(number, std::uint8_t{0});
    number[c.bytes - 2] = static_cast<std::uint8_t>(bits);
    number[c.bytes - 1] = static_cast<std::uint8_t>(bits >> 8u);
  }
  return files;
}

std::vector<float> floats_of(ConstView view) {
  std::vector<float> numbers;
  const auto append = [&](const auto* from) {
    for (std::int64_t i = 0; i < view.num_elements(); ++i) numbers.push_back(to_float(from[i]));
  };
  switch (view.dtype()) {
    case DType::kBF16: append(view.as<BF16>()); break;
    case DType::kF16: append(view.as<F16>()); break;
    default: append(view.as<float>());
  }
  return numbers;
}

// Formats whose scales are largest magnitudes of weights.
constexpr Case kMagnitudes[] = {
    {"quantised", "llm_int8", "a.b.SCB", 4},
    {"quantised", "nf4", "a.b.weight.absmax", 4},
    {"quantised", "nf4_odd", "a.b.weight.nested_absmax", 4},
    {"quantised", "nf4_across_rows", "a.b.weight.absmax", 4},
    {"quantised", "fp4", "a.b.weight.absmax", 4},
    {"quantised", "nf4_double", "a.b.weight.nested_absmax", 4},
    {"quantised", "fp4_double", "a.b.weight.nested_absmax", 4},
    {"compressed_tensors", "plain_fp8_tensor", "a.b.weight_scale_inv", 4},
    {"compressed_tensors", "plain_fp8_block", "a.b.weight_scale_inv", 4},
    {"compressed_tensors", "plain_fp8_block_bf16", "a.b.weight_scale_inv", 2},
    {"compressed_tensors", "fp8_channel_f32", "a.b.weight_scale", 4},
};
// Formats whose scales may have any sign.
constexpr Case kSigned[] = {
    {"quantised", "awq_g32", "a.b.scales", 2},
    {"quantised", "awq_g128_bf16", "a.b.scales", 2},
    {"quantised", "gptq_v1", "a.b.scales", 2},
    {"quantised", "gptq_8_bits_v2", "a.b.scales", 2},
    {"compressed_tensors", "w4_g32", "a.b.weight_scale", 2},
    {"compressed_tensors", "w8a8", "a.b.weight_scale", 2},
    {"compressed_tensors", "w8a8_f32", "a.b.weight_scale", 4},
    {"compressed_tensors", "w4_channel_asymmetric_f32", "a.b.weight_scale", 4},
};
constexpr std::uint16_t kMinusOne = 0xBF80;  // -1 in BF16, and the high half of F32's
constexpr std::uint16_t kNan = 0x7FFF;

// Whether reading as numbers, as codes, and from the file's codes ends with the same message.
void check_refused(const Case& c, const QuantisedFiles& files, const std::string& part) {
  const Shape shape = shape_of(c);
  const std::string message = error_of_files(files, shape, ErrorCode::kBadModel);
  CHECK(contains_text(message,
                      "model.safetensors: tensor \"" + std::string(c.tensor) + "\" " + part));
  CHECK(contains_text(message, "; download the file again, or quantise the model again"));
  const auto source = files.open();
  if (!source->codes_of(kCodedWeight) && !source->e4m3_of(kCodedWeight)) return;
  CHECK_THROWS_WITH_AS(source->read_codes(kCodedWeight, shape, 0, shape[0]), message.c_str(),
                       Error);
  CHECK_THROWS_WITH_AS(source->borrow_codes(kCodedWeight, shape, 0, shape[0]), message.c_str(),
                       Error);
}

}  // namespace

TEST_SUITE_BEGIN("weights/scales");

TEST_CASE("a negative scale is refused where the format defines a largest magnitude") {
  for (const Case& c : kMagnitudes) {
    CAPTURE(std::string(c.golden));
    check_refused(c, with_scales(c, kMinusOne, 1),
                  "holds -1 (element 0), where the largest magnitude of weights, which is not "
                  "negative, was expected");
  }
}

TEST_CASE("a negative scale does not matter to rows without it") {
  const Case& c = kMagnitudes[0];
  const auto source = with_scales(c, kMinusOne, 1).open();
  CHECK_NOTHROW(source->borrow_codes(kCodedWeight, shape_of(c), 1, shape_of(c)[0] - 1));
}

TEST_CASE("a scale that is no number is refused in every format") {
  for (const std::span<const Case> cases :
       {std::span<const Case>(kMagnitudes), std::span<const Case>(kSigned)}) {
    for (const Case& c : cases) {
      CAPTURE(std::string(c.golden));
      CHECK(
          contains_text(error_of_files(with_scales(c, kNan, 1), shape_of(c), ErrorCode::kBadModel),
                        "tensor \"" + std::string(c.tensor) + "\" holds a "));
    }
  }
}

TEST_CASE("scales of 0 stand for weights of 0") {
  for (const std::span<const Case> cases :
       {std::span<const Case>(kMagnitudes), std::span<const Case>(kSigned)}) {
    for (const Case& c : cases) {
      if (std::string(c.tensor).find("nested") != std::string::npos) continue;  // has an offset
      CAPTURE(std::string(c.golden));
      const Shape shape = shape_of(c);
      const auto source = with_scales(c, 0).open();
      const std::vector<float> numbers = floats_of(source->read(kCodedWeight, shape));
      CHECK(std::ranges::count(numbers, 0.0F) == shape.num_elements());
      if (source->codes_of(kCodedWeight)) {
        CHECK_NOTHROW(source->borrow_codes(kCodedWeight, shape, 0, shape[0]));
      }
    }
  }
}

TEST_CASE("where scales may have any sign, a negative one negates its weights") {
  for (const Case& c : kSigned) {
    CAPTURE(std::string(c.golden));
    const Shape shape = shape_of(c);
    QuantisedFiles files(path_of(c));
    const std::span<std::uint8_t> scales = files.bytes_of(c.tensor);
    for (std::size_t i = c.bytes - 1; i < scales.size(); i += c.bytes) scales[i] ^= 0x80u;
    const auto source = files.open();
    const std::vector<float> numbers = floats_of(source->read(kCodedWeight, shape));
    // Those of the golden are compared with its library's by the tests of its format.
    const auto golden = open_source(path_of(c));
    std::vector<float> expected = floats_of(golden->read(kCodedWeight, shape));
    for (float& number : expected) number = -number;
    CHECK(numbers == expected);
    if (source->codes_of(kCodedWeight)) {
      CHECK_NOTHROW(source->borrow_codes(kCodedWeight, shape, 0, shape[0]));
    }
  }
}

TEST_SUITE_END();

}  // namespace caption::weights
