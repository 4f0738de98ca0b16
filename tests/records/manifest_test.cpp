// Tests the configuration that an output belongs to.
#include "records/manifest.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "sample_record.h"

namespace caption::records {
namespace {

TEST_SUITE("records/manifest") {
  TEST_CASE("is read back as it was written") {
    const Folder folder;
    const Manifest manifest{{{"prompt", "자세히 \"설명\"해 주세요.\n"}, {"seed", "20"}}};
    write_manifest(folder / "m.json", manifest);
    const std::optional<Manifest> read = read_manifest(folder / "m.json");
    REQUIRE(read.has_value());
    CHECK(describe_differences(*read, manifest) == "");
    CHECK_FALSE(read_manifest(folder / "none.json").has_value());
    CHECK_FALSE(std::filesystem::exists(folder / "m.json.new"));
  }

  TEST_CASE("names every difference with both values") {
    const Manifest there{{{"seed", "7"}, {"prompt", "a"}, {"gone", "1"}}};
    const Manifest now{{{"seed", "20"}, {"prompt", "a"}, {"new", "2"}}};
    CHECK(describe_differences(there, now) ==
          "seed is \"7\" there and \"20\" now; new is not set there and \"2\" now; "
          "gone is \"1\" there and not set now");
    CHECK(describe_differences(there, there) == "");
  }

  TEST_CASE("names a digest that differs after all other settings") {
    const std::string old_digest(64, 'a');
    const std::string new_digest(64, 'b');
    const Manifest there{{{"model", old_digest}, {"model.pooling", "1"}}};
    const Manifest now{{{"model", new_digest}, {"model.pooling", "2"}}};
    CHECK(describe_differences(there, now) ==
          "model.pooling is \"1\" there and \"2\" now; model is \"" + old_digest +
              "\" there and \"" + new_digest + "\" now");
  }

  TEST_CASE("a file that is no manifest is refused") {
    const Folder folder;
    for (const char* text : {"", "[]", "{\"seed\": 7}", "{\"a\": \"b\""}) {
      CAPTURE(std::string(text));
      write_file(folder / "m.json", text);
      CHECK_THROWS_WITH_AS(
          read_manifest(folder / "m.json"),
          doctest::Contains("; mend it, or remove it and start anew with --overwrite"), Error);
    }
  }
}

}  // namespace
}  // namespace caption::records
