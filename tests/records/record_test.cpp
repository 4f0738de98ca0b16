// Tests that a record survives conversion to a JSON line and back.
#include "records/record.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "sample_record.h"

namespace caption::records {
namespace {

Record with_prompt() {
  Record record = sample_record("v.mp4");
  record.prompt = "짧게";
  return record;
}

TEST_SUITE("records/record") {
  TEST_CASE("a line reads back to the same line") {
    for (const Record& record :
         {sample_record("바다.mp4"), failed_record("a\\xff.mp4"), Record{}, with_prompt()}) {
      const std::string line = to_json_line(record);
      CAPTURE(line);
      CHECK(line.find('\n') == std::string::npos);
      CHECK(to_json_line(parse_json_line(line)) == line);
    }
  }

  TEST_CASE("keys stand in the order of the design and Hangul is not escaped") {
    Record record = sample_record("v.mp4");
    record.caption = "바다";
    record.warnings.clear();
    CHECK(to_json_line(record) ==
          R"({"video":"v.mp4","window_s":[0.5,12.345678],"caption":"바다","status":"ok",)"
          R"("frames":{"wanted":8,"used":7},"tokens":{"prompt":141,"vision":128,"output":44},)"
          R"("timing_ms":{"decode":30.125,"vision":4.5,"first_token":7.25,"total":99.875},)"
          R"("finish_reason":"stop"})");
  }

  TEST_CASE("the engine's time is there when it is known") {
    Record record = sample_record("v.mp4");
    CHECK(to_json_line(record).find("\"engine\"") == std::string::npos);
    CHECK(parse_json_line(to_json_line(record)).engine_ms == 0);
    record.engine_ms = 20.5;
    const std::string line = to_json_line(record);
    CHECK(line.find(R"("first_token":7.25,"engine":20.5,"total":99.875})") != std::string::npos);
    CHECK(parse_json_line(line).engine_ms == 20.5);
  }

  TEST_CASE("drafts are there for the captions of a run that had them") {
    Record record = sample_record("v.mp4");
    CHECK(to_json_line(record).find("speculation") == std::string::npos);
    CHECK_FALSE(parse_json_line(to_json_line(record)).speculation.has_value());
    record.speculation = {.steps = 44};
    const std::string without = to_json_line(record);
    CHECK(without.find(R"("total":99.875},"speculation":{"steps":44,"drafts":{}},"finish)") !=
          std::string::npos);
    record.speculation = {.steps = 12, .sources = {{"archive", 40, 30}, {"ngram", 3, 2}}};
    const std::string line = to_json_line(record);
    CHECK(line.find(R"("speculation":{"steps":12,"drafts":{"archive":{"computed":40,"accepted":30})"
                    R"(,"ngram":{"computed":3,"accepted":2}}},"finish_reason")") !=
          std::string::npos);
    for (const std::string& written : {without, line}) {
      CHECK(to_json_line(parse_json_line(written)) == written);
    }
    std::string broken = line;
    broken.replace(broken.find("\"accepted\":2"), 12, "\"accepted\":-");
    CHECK_THROWS_AS(parse_json_line(broken), Error);
  }

  TEST_CASE("the chosen adapter stands behind the prompt, and tells captions apart") {
    Record record = with_prompt();
    CHECK(caption_key(record) == record.prompt);
    record.adapter = "sports";
    const std::string line = to_json_line(record);
    CHECK(line.starts_with(R"({"video":"v.mp4","prompt":"짧게","adapter":"sports","window_s":)"));
    CHECK(parse_json_line(line).adapter == "sports");
    CHECK(caption_key(record) != caption_key("짧게", "news"));
    CHECK(caption_key(record) != caption_key("짧게", ""));
    CHECK(caption_key("a", "b") != caption_key("ab", ""));
  }

  TEST_CASE("a prompt's name and log-probabilities are there when there are any") {
    Record record = with_prompt();
    CHECK(to_json_line(record).starts_with(R"({"video":"v.mp4","prompt":"짧게","window_s":)"));
    record.logprobs = {{"바", -0.25, {{"바", -0.25}, {"하", -1.5}}}, {"다", -0.75, {}}};
    const std::string line = to_json_line(record);
    CHECK(line.ends_with(R"("logprobs":{"mean":-0.5,"tokens":[{"token":"바","logprob":-0.25,)"
                         R"("top":[["바",-0.25],["하",-1.5]]},{"token":"다","logprob":-0.75}]}})"));
    CHECK(parse_json_line(line).prompt == "짧게");
  }

  TEST_CASE("log-probabilities are read from a line that another program has written anew") {
    Record record = sample_record("v.mp4");
    record.settings = "0123456789abcdef";
    const std::string logprobs =
        R"({"mean":-0.5,"tokens":[{"token":"}\",\"logprobs\":{","logprob":-0.5}]})";
    const std::string plain = to_json_line(record);
    const std::string end = plain.substr(0, plain.size() - 1);
    const auto is_kept = [&](const std::string& line) {
      CAPTURE(line);
      const Record read = parse_json_line(line);
      CHECK(read.logprobs_json == logprobs);
      // The record is written under another name when its file is moved, and read again.
      const Record again = parse_json_line(to_json_line(read));
      CHECK(again.logprobs_json == logprobs);
      CHECK(again.settings == record.settings);
    };
    is_kept(end + ",\"logprobs\":" + logprobs + "}");
    const std::size_t status = plain.find(",\"status\"");
    is_kept(plain.substr(0, status) + ",\"logprobs\":" + logprobs + plain.substr(status));
    is_kept("{\"logprobs\":" + logprobs + "," + plain.substr(1));        // jq --sort-keys
    is_kept(end + ", \"logprobs\" : " + logprobs + ", \"score\": {}}");  // json.dumps of Python
    // A key of another object, and a text, are none.
    CHECK(parse_json_line(end + R"(,"mine":{"logprobs":{"mean":0}}})").logprobs_json == "");
    record.caption = R"(","logprobs":{"mean":0},")";
    CHECK(parse_json_line(to_json_line(record)).logprobs_json == "");
  }

  TEST_CASE("\"looped\" of version 0.1 is read as suspicious") {
    std::string line = to_json_line(sample_record("v.mp4"));
    line.replace(line.find("\"ok\""), 4, "\"looped\"");
    const Record record = parse_json_line(line);
    CHECK(record.status == Status::kSuspicious);
    CHECK(record.reason == kLoopReason);
    CHECK(parse_json_line(to_json_line(record)).reason == kLoopReason);
  }

  TEST_CASE("counts of other programs that read numbers as floats, and ids in capitals, are read") {
    Record record = sample_record("v.mp4");
    record.id = std::string(60, '0') + "abcf";
    const std::string line = to_json_line(record);
    const auto with = [&](const std::string& from, const std::string& to) {
      std::string changed = line;
      REQUIRE(changed.find(from) != std::string::npos);
      return changed.replace(changed.find(from), from.size(), to);
    };
    CHECK(to_json_line(parse_json_line(with("\"used\":7", "\"used\":7.0"))) == line);
    CHECK(to_json_line(parse_json_line(with("\"output\":44", "\"output\":4.4e1"))) == line);
    CHECK(to_json_line(parse_json_line(with("0abcf", "0ABCF"))) == line);
    CHECK(parse_json_line(with(record.id, "ABC")).id == "ABC");
    for (const char* const wrong : {"7.5", "-1.0", "1e300", "\"7.0\""}) {
      CAPTURE(std::string(wrong));
      CHECK_THROWS_WITH_AS(parse_json_line(with("\"used\":7", "\"used\":" + std::string(wrong))),
                           doctest::Contains("frames.used: expected an integer"), Error);
    }
  }

  TEST_CASE("a broken line says what is wrong with it") {
    const std::string good = to_json_line(sample_record("v.mp4"));
    struct Case {
      const char* name;
      const char* from;
      const char* to;
      const char* message;
    };
    constexpr Case kCases[] = {
        {"no video", "\"video\":", "\"film\":", "video"},
        {"status", "\"ok\"", "\"fine\"", "none of ok, truncated, suspicious, failed"},
        {"failed without error", "\"ok\"", "\"failed\"", "error"},
        {"window", "[0.5,12.345678]", "[0.5]", "window_s"},
        {"negative count", "\"used\":7", "\"used\":-7", "used"},
        {"text for a number", "\"decode\":30.125", "\"decode\":\"30\"", "decode"},
        {"missing timing", "\"total\"", "\"sum\"", "total: missing"},
        {"no object", "{\"video\"", "[\"video\"", "JSON"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      std::string line = good;
      line.replace(line.find(c.from), std::string(c.from).size(), c.to);
      try {
        parse_json_line(line);
        FAIL_CHECK("was taken: " << line);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadReference);
        CHECK(std::string(error.what()).find(c.message) != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace caption::records
