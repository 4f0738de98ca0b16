#include "doctor/findings.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace caption::doctor {
namespace {

const std::vector<Finding>& some_findings() {
  static const std::vector<Finding> kFindings = {
      {.name = "memory", .state = State::kOk, .text = "25.1 GB", .remedy = {}},
      {.name = "GPU", .state = State::kNote, .text = "no \"card\"", .remedy = {}},
      {.name = "dictionary", .state = State::kMissing, .text = "none", .remedy = "apt-get it"}};
  return kFindings;
}

TEST_SUITE("doctor/findings") {
  TEST_CASE("the text has a line per finding, the remedy below it, and a sum at its end") {
    CHECK(to_text(some_findings()) ==
          "ok       memory        25.1 GB\n"
          "note     GPU           no \"card\"\n"
          "missing  dictionary    none\n"
          "                       -> apt-get it\n"
          "\n"
          "1 thing that run or eval needs is missing.\n");
    CHECK(to_text({some_findings()[0]}).ends_with("\nrun and eval work here.\n"));
    CHECK(to_text({some_findings()[2], some_findings()[2]})
              .ends_with("\n2 things that run or eval needs are missing.\n"));
  }

  TEST_CASE("what a finding quotes makes no line of its own") {
    const std::string text = to_text({{.name = "preset cpu",
                                       .state = State::kMissing,
                                       .text = "model_type \"x\nok       model\"",
                                       .remedy = "see \x1b[2J"}});
    CHECK(text.find("\nok") == std::string::npos);
    CHECK(text.find("\"x\uFFFDok       model\"\n") != std::string::npos);
    CHECK(text.find("-> see \uFFFD[2J\n") != std::string::npos);
  }

  TEST_CASE("JSON says the same") {
    const JsonObject json =
        JsonObject::parse(to_json(some_findings()), "json", ErrorCode::kInternal);
    CHECK_FALSE(json.get_bool("works", true));
    const std::vector<JsonObject> findings = json.get_objects("findings");
    REQUIRE(findings.size() == 3);
    CHECK(findings[0].require_string("name") == "memory");
    CHECK(findings[0].require_string("state") == "ok");
    CHECK(findings[1].require_string("text") == "no \"card\"");
    CHECK_FALSE(findings[1].has("remedy"));
    CHECK(findings[2].require_string("remedy") == "apt-get it");
    CHECK(to_json({some_findings()[0]}).starts_with("{\"works\":true,"));
  }
}

}  // namespace
}  // namespace caption::doctor
