// Tests that speculative decoding changes the time of captions and nothing else.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

using Arguments = std::vector<std::string>;

std::map<std::string, std::string> captions_of(const std::string& text) {
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(text)) {
    CHECK(captions.emplace(record.video, record.caption).second);
  }
  return captions;
}

Finished caption(Arguments options) {
  options.insert(options.begin(), {"run", sample_video("").string()});
  return run_cli(options);
}

std::string references() {
  return (sample_video("").parent_path().parent_path() / "references.jsonl").string();
}

TEST_SUITE("app/drafts") {
  TEST_CASE("captions with drafts are those without, greedy and drawn") {
    const std::vector<Arguments> generations = {
        {"--max-num-seqs", "1"},
        {"--temperature", "0.9", "--seed", "7", "--repetition-penalty", "1.1",
         "--no-repeat-ngram-size", "4"}};
    const std::vector<Arguments> methods = {{"--drafts", "ngram"},
                                            {"--drafts", "archive"},
                                            {"--drafts", "archive", "--batching", "static"},
                                            {"--drafts", "archive", "--draft-from", references()}};
    for (const Arguments& generation : generations) {
      const auto expected = captions_of(caption(generation).out);
      CHECK(expected.size() == sample_videos().size());
      for (const Arguments& method : methods) {
        CAPTURE(method);
        Arguments options = generation;
        options.insert(options.end(), method.begin(), method.end());
        const Finished finished = caption(options);
        CHECK(finished.exit_code == 0);
        CHECK(captions_of(finished.out) == expected);
      }
    }
  }

  TEST_CASE(
      "drafts from references and earlier records are accepted, and the summary counts them") {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "captions.jsonl").string();
    const Finished first = caption(
        {"-o", output, "--max-num-seqs", "1", "--drafts", "archive", "--draft-from", references()});
    CHECK(first.err.find("tokens of a caption per step; archive: ") != std::string::npos);
    CHECK(first.err.find(" of the engine's steps, which ") != std::string::npos);
    for (const records::Record& record : parse_records(read_text(output))) {
      REQUIRE(record.speculation.has_value());
      std::int64_t num_accepted = 0;
      for (const records::Speculation::Source& source : record.speculation->sources) {
        CHECK(source.accepted <= source.computed);
        num_accepted += source.accepted;
      }
      // One token of each step is not a draft; the draft that ends an output gives no further one.
      const std::int64_t num_left = record.output_tokens - record.speculation->steps;
      CHECK(num_accepted >= num_left);
      CHECK(num_accepted <= num_left + 1);
    }
    const std::string other = (folder.path() / "other.jsonl").string();
    const Finished second = caption(
        {"-o", other, "--max-num-seqs", "1", "--drafts", "archive", "--draft-from", output});
    CHECK(second.err.find("tokens of a caption per step; archive: ") != std::string::npos);
    CHECK(captions_of(read_text(other)) == captions_of(read_text(output)));
    const Finished none = caption({"--drafts", "none"});
    CHECK(none.err.find("tokens of a caption") == std::string::npos);
    CHECK(none.out.find("speculation") == std::string::npos);
  }

  TEST_CASE("what cannot be drafted from is one sentence") {
    const TemporaryFolder folder;
    const Finished without = caption({"--draft-from", references()});
    CHECK(without.exit_code == 2);
    CHECK(without.err.find("--drafts archive") != std::string::npos);
    const Finished missing =
        caption({"--drafts", "archive", "--draft-from", (folder.path() / "none.jsonl").string()});
    CHECK(missing.exit_code == 3);
    CHECK(missing.err.find("none.jsonl") != std::string::npos);
    const std::string broken = (folder.path() / "broken.jsonl").string();
    write_text(broken, "{\"video\": \"a.mp4\", \"captions\": [\"바다\"]}\n{\"video\": ");
    const Finished cut = caption({"--drafts", "archive", "--draft-from", broken});
    CHECK(cut.exit_code != 0);
    CHECK(cut.err.find("broken.jsonl:2") != std::string::npos);
    CHECK(cut.out.empty());
    const Finished unknown = caption({"--drafts", "luck"});
    CHECK(unknown.exit_code == 2);
    CHECK(unknown.err.find("none, ngram, archive") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::test
