// Tests each branch of the choice between formats on hand-made figures, and the front on random
// ones.
#include "plan/format_choice.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace caption::plan {
namespace {

using weights::WeightFormat;

FormatCost cost(WeightFormat format, const char* name, double videos_per_s,
                std::optional<double> loss = std::nullopt) {
  return {.format = format,
          .name = name,
          .memory_bytes = 1000,
          .videos_per_s = videos_per_s,
          .loss = loss};
}

// A model of which every format is measured: 4 bits lose more than kMostLoss.
std::vector<FormatCost> measured() {
  return {cost(WeightFormat::kF32, "f32", 500, 0),     cost(WeightFormat::kBF16, "bf16", 10, 1e-5),
          cost(WeightFormat::kInt8, "int8", 15, 4e-4), cost(WeightFormat::kW8A8, "w8a8", 20, 2e-3),
          cost(WeightFormat::kInt4, "int4", 30, 0.05), cost(WeightFormat::kNf4, "nf4", 31, 0.03)};
}

std::string chosen_of(const std::vector<FormatCost>& formats) {
  const FormatChoice choice = choose_format(formats);
  return choice.index.has_value() ? formats[*choice.index].name : "none";
}

FormatCost& named(std::vector<FormatCost>& formats, const std::string& name) {
  for (FormatCost& format : formats) {
    if (format.name == name) return format;
  }
  FAIL("no format ", name);
  return formats.front();
}

bool has(const std::vector<FormatCost>& formats, const char* part) {
  const std::string reason = choose_format(formats).reason;
  CAPTURE(reason);
  return reason.find(part) != std::string::npos;
}

// An independent definition: whether `b` is nowhere better than `a`, and somewhere worse.
bool beats(const FormatCost& a, const FormatCost& b) {
  const double loss_a = a.loss ? *a.loss : 1e300;
  const double loss_b = b.loss ? *b.loss : 1e300;
  const bool is_b_better =
      b.memory_bytes < a.memory_bytes || b.videos_per_s > a.videos_per_s || loss_b < loss_a;
  const bool is_equal =
      b.memory_bytes == a.memory_bytes && b.videos_per_s == a.videos_per_s && loss_b == loss_a;
  return !is_b_better && !is_equal;
}

TEST_SUITE("plan/format_choice") {
  TEST_CASE("a checkpoint that is yet to be made is not chosen, however good, and not counted") {
    std::vector<FormatCost> formats = measured();
    formats.push_back(cost(WeightFormat::kBF16, "gptq (made)", 900, 1e-6));
    formats.back().is_made = true;
    CHECK(chosen_of(formats) == "w8a8");
    CHECK(pareto_front(formats).back());
    formats.back().fits = false;
    CHECK_FALSE(has(formats, "gptq"));
    for (FormatCost& format : formats) format.fits = format.is_made;
    CHECK(chosen_of(formats) == "none");
    CHECK(has(formats, "none of 6 formats fits"));
  }

  TEST_CASE("of the formats that lose little, the fastest is chosen, never f32") {
    const std::vector<FormatCost> formats = measured();
    CHECK(chosen_of(formats) == "w8a8");
    CHECK(has(formats,
              "w8a8 at 20.0 videos/s and 0.0020 nats a token: the fastest of 3 formats that fit "
              "and lose at most 0.02 nats"));
  }

  TEST_CASE("a loss of exactly the bound is accepted, one above it is not") {
    std::vector<FormatCost> formats = measured();
    named(formats, "nf4").loss = kMostLoss;
    CHECK(chosen_of(formats) == "nf4");
    named(formats, "nf4").loss = std::nextafter(kMostLoss, 1);
    CHECK(chosen_of(formats) == "w8a8");
  }

  TEST_CASE("formats that do not fit are left out") {
    std::vector<FormatCost> formats = measured();
    named(formats, "w8a8").fits = false;
    CHECK(chosen_of(formats) == "int8");
    CHECK(has(formats, "lose at most 0.02 nats; w8a8 does not fit"));
    named(formats, "bf16").fits = false;
    named(formats, "int4").fits = false;  // loses more than the bound
    CHECK(
        has(formats,
            ": the only one of those that fit and lose at most 0.02 nats; bf16, w8a8 do not fit"));
    for (FormatCost& format : formats) format.fits = false;
    CHECK(chosen_of(formats) == "none");
    CHECK(has(formats, "none of 6 formats fits"));
    formats.front().fits = true;  // f32 alone
    CHECK(chosen_of(formats) == "none");
  }

  TEST_CASE("speeds within 5 % are equal, and the lowest loss counts") {
    std::vector<FormatCost> formats = measured();
    named(formats, "int8").videos_per_s = 19;  // exactly 5 % less
    CHECK(chosen_of(formats) == "int8");
    CHECK(
        has(formats,
            "int8 at 19.0 videos/s and 0.00040 nats a token: the least loss of 2 within 5 % of the "
            "fastest, w8a8 at 20.0 videos/s, of 3 formats that fit and lose at most 0.02 nats"));
    named(formats, "int8").videos_per_s = 18.9;
    CHECK(chosen_of(formats) == "w8a8");
    CHECK(has(formats, ": the fastest of 3 formats"));
    // Where the fastest has the least loss too, that is what decided.
    named(formats, "int8").videos_per_s = 20.5;
    CHECK(chosen_of(formats) == "int8");
    CHECK(has(formats, ": the least loss of 2 within 5 % of the fastest, int8 at 20.5 videos/s, "));
  }

  TEST_CASE("if every format loses more than the bound, the one that loses least is chosen") {
    std::vector<FormatCost> formats = measured();
    for (const char* name : {"bf16", "int8", "w8a8"}) named(formats, name).fits = false;
    CHECK(chosen_of(formats) == "nf4");
    CHECK(has(formats, "nf4 at 0.030 nats a token: the least loss of the formats that fit"));
  }

  TEST_CASE("beside measured formats one that is not measured is not chosen") {
    std::vector<FormatCost> formats = measured();
    named(formats, "w8a8").loss.reset();
    CHECK(chosen_of(formats) == "int8");
  }

  TEST_CASE("without measured losses bf16 and int8 are chosen by speed") {
    std::vector<FormatCost> formats = measured();
    for (FormatCost& format : formats) format.loss.reset();
    CHECK(chosen_of(formats) == "int8");
    CHECK(has(formats,
              "int8 at 15.0 videos/s: the fastest of 2 formats that fit and are taken without a "
              "measured price (bf16, int8)"));
    named(formats, "int8").videos_per_s = 10.5;  // bf16's 10 is within 5 %
    CHECK(chosen_of(formats) == "bf16");
    CHECK(has(formats,
              "bf16 at 10.0 videos/s: first in the order for unmeasured formats of 2 within 5 % of "
              "the fastest, int8 at 10.5 videos/s, of 2 formats that fit and are taken without a "
              "measured price (bf16, int8)"));
    CHECK_FALSE(has(formats, "closer to f32"));
    named(formats, "bf16").fits = false;
    CHECK(chosen_of(formats) == "int8");
    CHECK(has(formats, "(bf16, int8); bf16 does not fit"));
    CHECK(has(formats, "int8 at 10.5 videos/s: the only one of those that fit and"));
  }

  TEST_CASE("without measured losses the format of the checkpoint itself is chosen by speed, too") {
    std::vector<FormatCost> formats = measured();
    for (FormatCost& format : formats) format.loss.reset();
    named(formats, "w8a8").is_own = true;
    CHECK(chosen_of(formats) == "w8a8");
    CHECK(has(formats,
              "w8a8 at 20.0 videos/s: the fastest of 3 formats that fit and are taken without a "
              "measured price (bf16, int8, and w8a8 as the checkpoint says)"));
    named(formats, "w8a8").videos_per_s = 10;
    CHECK(chosen_of(formats) == "int8");
  }

  TEST_CASE("without measured losses a riskier format is chosen only if nothing else fits") {
    std::vector<FormatCost> formats = measured();
    for (FormatCost& format : formats) format.loss.reset();
    named(formats, "bf16").fits = false;
    named(formats, "int8").fits = false;
    CHECK(chosen_of(formats) == "w8a8");
    CHECK(has(formats,
              "w8a8 at 20.0 videos/s: neither bf16 nor int8 fits; what it loses is not measured"));
    named(formats, "w8a8").fits = false;
    CHECK(chosen_of(formats) == "int4");  // nf4 is faster, but speed is no reason on a guess
    named(formats, "int4").fits = false;
    CHECK(chosen_of(formats) == "nf4");
  }

  TEST_CASE("the front has no member that is dominated, and every other format is") {
    std::mt19937 random(20);
    std::uniform_int_distribution<int> few(0, 4);  // few values, so that equal ones occur
    int num_members = 0;
    for (int round = 0; round < 2000; ++round) {
      std::vector<FormatCost> formats(static_cast<std::size_t>(1 + few(random) * 3));
      for (FormatCost& format : formats) {
        format.memory_bytes = few(random);
        format.videos_per_s = few(random);
        if (const int loss = few(random); loss > 0) format.loss = 0.1 * loss;
        format.fits = few(random) > 0;
      }
      const std::vector<bool> is_on_front = pareto_front(formats);
      REQUIRE(is_on_front.size() == formats.size());
      for (std::size_t i = 0; i < formats.size(); ++i) {
        bool is_beaten = !formats[i].fits;
        for (const FormatCost& other : formats) {
          is_beaten = is_beaten || (other.fits && beats(other, formats[i]));
        }
        REQUIRE(is_on_front[i] == !is_beaten);
        num_members += is_on_front[i] ? 1 : 0;
      }
    }
    CHECK(num_members > 2000);
  }

  TEST_CASE("formats are multiplied by activations of 8 bits as their kernels do") {
    for (const WeightFormat format :
         {WeightFormat::kW8A8, WeightFormat::kW4A8, WeightFormat::kW4A8Head4}) {
      CHECK(has_8_bit_activations(format));
    }
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8,
                                      WeightFormat::kNf4, WeightFormat::kFp8}) {
      CHECK_FALSE(has_8_bit_activations(format));
    }
  }
}

}  // namespace
}  // namespace caption::plan
