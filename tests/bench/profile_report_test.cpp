#include "bench/profile_report.h"

#include <doctest/doctest.h>

namespace caption::bench {
namespace {

const model::DecoderSpec kShape = {.num_layers = 2,
                                   .hidden = 64,
                                   .intermediate = 128,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .head_dim = 16,
                                   .vocab = 320,
                                   .max_positions = 1024};

TEST_SUITE("bench/profile_report") {
  TEST_CASE("names dense layers by their matrices, sorts by time, and keeps what is left") {
    Profile profile;
    const auto add = [&](const ProfileKey& key, int milliseconds) {
      profile.add(key, std::chrono::milliseconds(milliseconds));
    };
    add({"rope"}, 5);
    add({"linear_swiglu", 256, 64}, 20);
    add({"linear_swiglu", 256, 64}, 20);
    add({"linear", 320, 64}, 25);
    add({"linear", 7, 9}, 1);
    const auto operations = name_operations(profile.entries(), named_matrices(kShape), 0.1);
    REQUIRE(operations.size() == 5);
    CHECK(operations[0].name == "linear_swiglu gate, up");
    CHECK(operations[0].calls == 2);
    CHECK(operations[0].seconds == doctest::Approx(0.040));
    CHECK(operations[1].name == kBetweenOperations);
    CHECK(operations[1].seconds == doctest::Approx(0.029));
    CHECK(operations[2].name == "linear lm_head");
    CHECK(operations[3].name == "rope");
    CHECK(operations[4].name == "linear [7, 9]");
  }

  TEST_CASE("the table gives milliseconds of a step and shares of the whole") {
    const std::string table =
        profile_table({{.name = "linear gate, up", .calls = 8, .seconds = 0.03},
                       {.name = "rope", .calls = 4, .seconds = 0.01}},
                      4);
    CHECK(table ==
          "operation           calls   ms/step     share\n"
          "linear gate, up         8      7.50    75.0 %\n"
          "rope                    4      2.50    25.0 %\n");
  }
}

}  // namespace
}  // namespace caption::bench
