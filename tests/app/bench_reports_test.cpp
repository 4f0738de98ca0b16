// The reports of bench and plan: where they go, and which of them exclude each other.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("app/bench_reports") {
  TEST_CASE("two reports need two places") {
    const TemporaryFolder folder;
    const std::string svg = (folder.path() / "x.svg").string();
    const std::string same = (folder.path() / "." / "x.svg").string();
    struct Case {
      std::vector<std::string> arguments;
      const char* message;
    };
    const std::vector<Case> cases = {
        {{"bench", "--shape", "demo", "--sweep", "1,2", "--svg", svg, "--json", same},
         "--json and --svg name one file; give them two\n"},
        {{"bench", "--shape", "demo", "--sweep", "1,2", "--svg", "-", "--json", "-"},
         "--json and --svg cannot both go to stdout\n"},
        {{"plan", "--fit", "--json", "--svg", "-"}, "--json and --svg cannot both go to stdout\n"},
        {{"eval", "c.jsonl", "--references", "r.jsonl", "--json", svg, "--per-clip", same},
         "--json and --per-clip name one file; give them two\n"},
    };
    for (const Case& c : cases) {
      const Finished finished = run_cli(c.arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 2);
      CHECK(finished.out.empty());
      CHECK(contains(finished.err, c.message));
    }
  }

  TEST_CASE("a chart on stdout is there alone") {
    const Finished swept = run_cli({"bench", "--shape", "demo", "--requests", "2",
                                    "--output-tokens", "2", "--sweep", "1,2", "--svg", "-"});
    CHECK(swept.exit_code == 0);
    CHECK(swept.out.starts_with("<svg "));
    CHECK(swept.out.ends_with("</svg>\n"));
    const Finished planned =
        run_cli({"plan", "--fit", "--card", "t4", "--model", "qwen3-0.6b", "--svg", "-"});
    CHECK(planned.out.starts_with("<svg "));
    CHECK(planned.out.ends_with("</svg>\n"));
  }

  TEST_CASE("a report takes the place of an earlier one of its kind") {
    const TemporaryFolder folder;
    const std::vector<std::string> tower = {
        "bench",    "--tower", "--shape", "demo",
        "--repeat", "1",       "--json",  (folder.path() / "tower.json").string()};
    for (int round = 0; round < 2; ++round) {
      const Finished finished = run_cli(tower);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
    }
    CHECK(read_text(folder.path() / "tower.json").starts_with("{\"subject\":\"demo"));
  }
}

}  // namespace
}  // namespace caption::test
