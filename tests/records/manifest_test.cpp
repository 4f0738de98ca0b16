// Tests the configuration that an output belongs to.
#include "records/manifest.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>

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
    using Files = std::filesystem::directory_iterator;
    CHECK(std::distance(Files(folder / ""), Files()) == 1);
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

  TEST_CASE("names five of many differences, and counts the others") {
    Manifest there;
    Manifest now;
    for (int i = 0; i < 6; ++i) {
      there.settings.emplace_back("s" + std::to_string(i), "a");
      now.settings.emplace_back("s" + std::to_string(i), "b");
    }
    const std::string five =
        "s0 is \"a\" there and \"b\" now; s1 is \"a\" there and \"b\" now; s2 is \"a\" there and "
        "\"b\" now; s3 is \"a\" there and \"b\" now; s4 is \"a\" there and \"b\" now; ";
    CHECK(describe_differences(there, now) == five + "1 other setting differs");
    there.settings.emplace_back("s6", "a");
    CHECK(describe_differences(there, now) == five + "2 other settings differ");
  }

  TEST_CASE("shows of long values where they differ, in whole characters") {
    std::string begin;
    for (int i = 0; i < 100; ++i) begin += "가";  // 3 bytes each
    for (const int num_shifted : {0, 1, 2}) {
      CAPTURE(num_shifted);
      const std::string same = std::string(static_cast<std::size_t>(num_shifted), 'x') + begin;
      const std::string text = describe_differences({{{"prompt", same + "나다" + begin}}},
                                                    {{{"prompt", same + "나라" + begin}}});
      CHECK(text.starts_with("prompt is ...\"가가가"));
      CHECK(text.find("가나다가") != std::string::npos);
      CHECK(text.find("가나라가") != std::string::npos);
      CHECK(text.ends_with("가가\"... now"));
      CHECK(text.find("\uFFFD") == std::string::npos);
      CHECK(text.size() < 300);
    }
    CHECK(describe_differences({{{"prompt", begin}}}, {{{"prompt", "나"}}})
              .ends_with("가\"... there and \"나\" now"));
  }

  TEST_CASE("a file that is no manifest is refused") {
    const Folder folder;
    for (const char* text : {"", "{}", "[]", "{\"seed\": 7}", "{\"a\": \"b\""}) {
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
