// `doctor` reports that `run` and `eval` work exactly on machines where they do.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

// Returns the state of a finding in the output of doctor --json; empty if there is none of this
// name.
std::string state_of(const Finished& finished, const std::string& name) {
  const JsonObject json = JsonObject::parse(finished.out, "stdout", ErrorCode::kInternal);
  CHECK(json.get_bool("works", false) == (finished.exit_code == 0));
  for (const JsonObject& finding : json.get_objects("findings")) {
    if (finding.require_string("name") == name) return finding.require_string("state");
  }
  return {};
}

TEST_SUITE("app/doctor") {
  TEST_CASE("where run and eval work nothing is missing") {
    const Finished text = run_cli({"doctor"});
    CAPTURE(text.out);
    CHECK(text.exit_code == 0);
    CHECK(text.out.ends_with("\nrun and eval work here.\n"));
    CHECK(text.err.empty());
    const Finished json = run_cli({"doctor", "--json"});
    CHECK(json.exit_code == 0);
    for (const char* name :
         {"processor", "CPU tier", "preset auto", "model", "dictionary", "decoders", "cache"}) {
      CAPTURE(name);
      CHECK(state_of(json, name) == "ok");
      CHECK(text.out.find(" " + std::string(name) + " ") != std::string::npos);
    }
    // These may have a note on a busy or small machine.
    for (const char* name : {"memory", "open files", "disk"}) {
      CAPTURE(name);
      CHECK((state_of(json, name) == "ok" || state_of(json, name) == "note"));
    }
    CHECK(state_of(json, "preset l4") == "note");
  }

  TEST_CASE("an absent dictionary, or one of another language, is missing") {
    const TemporaryFolder folder;
    const Finished absent = run_cli({"doctor", "--json", "--dictionary", "/nowhere/ko"});
    CHECK(absent.exit_code == 4);
    CHECK(state_of(absent, "dictionary") == "missing");
    CHECK(absent.out.find("apt-get install hunspell-ko") != std::string::npos);
    // A folder is looked into, as by eval.
    const Finished empty = run_cli({"doctor", "--dictionary", folder.path().string()});
    CHECK(empty.out.find((folder.path() / "ko.aff").string()) != std::string::npos);

    const std::string other = (folder.path() / "other").string();
    write_text(other + ".aff", "SET UTF-8\n");
    write_text(other + ".dic", "1\nword\n");
    const Finished foreign = run_cli({"doctor", "--dictionary", other});
    CHECK(foreign.exit_code == 4);
    CHECK(foreign.out.find("is not a Korean hunspell dictionary") != std::string::npos);
    CHECK(foreign.out.ends_with("\n1 thing that run or eval needs is missing.\n"));
  }

  TEST_CASE("a default preset whose model is not here is missing") {
    const TemporaryFolder folder;
    write_text(folder.path() / "auto.yaml", "# Mine.\ndevice: {type: cpu}\nmodel: not-here\n");
    const Environment own = {{"CAPTION_PRESETS", folder.path().string()}};
    const Finished finished = run_cli({"doctor", "--json"}, "", own);
    CHECK(finished.exit_code == 4);
    CHECK(state_of(finished, "preset auto") == "missing");
    CHECK(state_of(finished, "model").empty());
    CHECK(run_cli({"run", "-q", sample_video("city-000-h264.mp4").string()}, "", own).exit_code !=
          0);
  }

  TEST_CASE("a tier that cannot be chosen is missing, and a slower one is noted") {
    const Environment unknown = {{"CAPTION_CPU_TIER", "sse9"}};
    const Finished finished = run_cli({"doctor", "--json"}, "", unknown);
    CHECK(finished.exit_code == 4);
    CHECK(state_of(finished, "CPU tier") == "missing");
    const Finished slower = run_cli({"--cpu-tier", "reference", "doctor"});
    CHECK(slower.exit_code == 0);
    CHECK(slower.out.find("CPU tier      reference: ") != std::string::npos);
  }

  TEST_CASE("few descriptors and an unwritable cache are told") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "file").string();
    write_text(file, "");
    const Finished finished = run_cli_in({.folder = folder.path(),
                                          .environment = {{"XDG_CACHE_HOME", file}},
                                          .limits = {{RLIMIT_NOFILE, 23}}},
                                         {"doctor", "--json"});
    CHECK(finished.exit_code == 4);
    CHECK(state_of(finished, "open files") == "missing");
    CHECK(state_of(finished, "cache") == "note");
  }
}

}  // namespace
}  // namespace caption::test
