// Suggestions for mistyped names.
#include "base/nearest.h"

#include <doctest/doctest.h>

#include <string>

namespace caption {
namespace {

const std::vector<std::string> kOptions = {
    "-o",           "--output",     "--max-num-seqs", "--max-new-tokens", "--min-new-tokens",
    "--max-pixels", "--num-beams",  "--temperature",  "--frames",         "--format",
    "--retry",      "--references", "--json",         "--preset"};

TEST_SUITE("base/nearest") {
  TEST_CASE("finds the name behind slips of every kind") {
    struct Case {
      const char* typed;
      const char* meant;
    };
    constexpr Case kCases[] = {
        {"--max-tokens", "--max-new-tokens"},  // a missing word; --max-pixels has as many letters
        {"--max_new_tokens", "--max-new-tokens"},
        {"--frame", "--frames"},
        {"--fromes", "--frames"},
        {"--foramt", "--format"},
        {"--tempurature", "--temperature"},
        {"--temp", "--temperature"},
        {"--reference", "--references"},
        {"--beams", "--num-beams"},
        {"--ouput", "--output"},
        {"--outputs", "--output"},
        {"-preset", "--preset"},
        {"--jsn", "--json"},
        {"--JSON", "--json"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.typed);
      CHECK(nearest_name(c.typed, kOptions) == c.meant);
    }
    const std::vector<std::string> commands = {"run", "eval", "plan", "bench", "presets"};
    CHECK(nearest_name("rnu", commands) == "run");
    CHECK(nearest_name("evla", commands) == "eval");
    CHECK(nearest_name("preset", commands) == "presets");
    CHECK(nearest_name("benchmark", commands).empty());
    CHECK(nearest_name("BF16", {"f32", "bf16", "int8"}) == "bf16");
    CHECK(nearest_name("LLAMA-7b", {"demo", "Llama-7B"}) == "Llama-7B");
  }

  TEST_CASE("says nothing where nothing is near") {
    for (const char* typed : {"", "-", "--", "-x", "--zzz", "--no-such-flag", "--verbosity"}) {
      CAPTURE(typed);
      CHECK(nearest_name(typed, kOptions).empty());
    }
    CHECK(nearest_name(std::string(100'000, 'a'), kOptions).empty());
    CHECK(nearest_name("run", {}).empty());
  }

  TEST_CASE("ends a message, or leaves it as it is") {
    CHECK(did_you_mean("--frame", kOptions) == "; did you mean --frames?");
    CHECK(did_you_mean("--zzz", kOptions).empty());
  }
}

}  // namespace
}  // namespace caption
