#include "base/json_stream.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace caption {
namespace {

JsonStream stream_of(std::string_view text) { return {text, "m.json", ErrorCode::kBadModel}; }

// Reads {"key": [strings], ...} and returns "key=a,b;".
std::string read_lists(std::string_view text) {
  JsonStream stream = stream_of(text);
  std::string out;
  std::string key;
  std::string scratch;
  stream.begin_object();
  while (stream.next_key(&key)) {
    out += key + "=";
    stream.begin_array();
    while (stream.next_element()) out.append(stream.read_string(&scratch)).append(",");
    out += ";";
  }
  stream.finish();
  return out;
}

std::string read_string(std::string_view text) {
  JsonStream stream = stream_of(text);
  std::string scratch;
  const std::string value(stream.read_string(&scratch));
  stream.finish();
  return value;
}

TEST_SUITE("base/json_stream") {
  TEST_CASE("objects and lists are read in the order of the text") {
    CHECK(read_lists("{}") == "");
    CHECK(read_lists(" {\"a\" : [ ] , \"b\":[\"x\",\n\"y\"]}\t") == "a=;b=x,y,;");
  }

  TEST_CASE("strings lose their escapes") {
    CHECK(read_string(R"("")").empty());
    CHECK(read_string(R"("a\"b\\\/\b\f\n\r\tz")") == "a\"b\\/\b\f\n\r\tz");
    CHECK(read_string(R"("\u0120\uac00\ud83d\ude00 가")") == "\u0120\uac00\U0001F600 가");
  }

  TEST_CASE("numbers are read whole and in range") {
    JsonStream numbers = stream_of("[0, -5, 1.5e2, -0.25]");
    numbers.begin_array();
    CHECK(numbers.next_element());
    CHECK(numbers.read_int(0, 9) == 0);
    CHECK(numbers.next_element());
    CHECK(numbers.read_int(-9, 9) == -5);
    CHECK(numbers.next_element());
    CHECK(numbers.read_double() == 150.0);
    CHECK(numbers.next_element());
    CHECK(numbers.read_double() == -0.25);
    CHECK_FALSE(numbers.next_element());
    numbers.finish();
  }

  TEST_CASE("a skipped value is returned as it stands") {
    JsonStream stream = stream_of(R"({"a": {"b": ["}]\"", 1]} , "c": "x\"", "d": null, "e": -1})");
    std::string key;
    std::vector<std::string> values;
    stream.begin_object();
    while (stream.next_key(&key)) values.emplace_back(stream.skip_value());
    stream.finish();
    CHECK(values == std::vector<std::string>{R"({"b": ["}]\"", 1]})", R"("x\"")", "null", "-1"});
  }

  TEST_CASE("broken texts are refused with the place") {
    const struct {
      const char* text;
      const char* message;
    } kRows[] = {
        {"", "m.json: not valid JSON"},
        {"{", "m.json: not valid JSON"},
        {"{\"a\": [\"x\",]}", "m.json: not valid JSON"},
        {"{\"a\": [\"x\" \"y\"]}", "m.json: not valid JSON"},
        {"{\"a\" []}", "m.json: not valid JSON"},
        {"{\"a\": [],}", "m.json: not valid JSON"},
        {"{\"a\": []} x", "m.json: not valid JSON"},
        {"{\"a\": [\"x]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\\x\"]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\\ud800\"]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\\udc00\"]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\\u12\"]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\n\"]}", "m.json: not valid JSON"},
        {"{\"a\": [\"\xff\"]}", "line 1, column 8: a string that is not valid UTF-8"},
        {"{\"a\":\n [1]}", "m.json: line 2, column 3: expected a string, found a number"},
        {"[]", "m.json: line 1, column 1: expected an object, found a list"},
        {"{\"가\": 1}", "line 1, column 7: expected a list, found a number"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.text));
      CHECK_THROWS_WITH_AS(read_lists(row.text), doctest::Contains(row.message), Error);
    }
  }

  TEST_CASE("numbers beyond the range and of another grammar are refused") {
    for (const char* text : {"10", "-1", "1.5", "1e1", "99999999999999999999"}) {
      CAPTURE(std::string(text));
      CHECK_THROWS_WITH_AS(stream_of(text).read_int(0, 9),
                           doctest::Contains("expected an integer from 0 to 9"), Error);
    }
    for (const char* text : {"01", "-", "1.", "1e", "+1", ".5"}) {
      CAPTURE(std::string(text));
      CHECK_THROWS_WITH_AS(stream_of(text).read_double(), doctest::Contains("not valid JSON"),
                           Error);
    }
    CHECK_THROWS_AS(stream_of("1e999").read_double(), Error);
  }

  TEST_CASE("a value that never ends, or with another bracket, is refused") {
    for (const char* text : {"[[", "{\"a", "\"\\", "[\"]", "[", "[}", "{]", "[{\"a\": [1}]}"}) {
      CAPTURE(std::string(text));
      CHECK_THROWS_WITH_AS(stream_of(text).skip_value(), doctest::Contains("not valid JSON"),
                           Error);
    }
  }
}

}  // namespace
}  // namespace caption
