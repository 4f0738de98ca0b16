#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "base/json.h"

namespace caption {
namespace {

using Strings = std::vector<std::string>;

JsonObject parsed(std::string_view text) {
  return JsonObject::parse(text, "config.json", ErrorCode::kBadModel);
}

// The message of the Error that `work` throws; empty when it throws nothing.
template <class Work>
std::string message_of(Work work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadModel);
    return error.what();
  }
}

TEST_SUITE("base/json") {
  TEST_CASE("values come out by type, and absent or null ones as the fallback") {
    const JsonObject json = parsed(R"({"i": 7, "d": 2.5, "b": true, "s": "글", "n": null,
        "o": {"x": 1}, "l": [1, 2], "t": ["a", "b"], "m": [{"k": 1}, {"k": 2}], "e": []})");
    CHECK(json.require_int("i", 0, 10) == 7);
    CHECK(json.get_int("n", 3, 0, 10) == 3);
    CHECK(json.get_int("absent", -1, 0, 10) == -1);
    CHECK(json.get_double("d", 0.0) == 2.5);
    CHECK(json.get_double("i", 0.0) == 7.0);
    CHECK(json.get_bool("b", false));
    CHECK(json.get_string("s", "") == "글");
    CHECK(json.get_string("n", "x") == "x");
    CHECK(json.require_string("s") == "글");
    CHECK(json.get_object("o")->require_int("x", 0, 9) == 1);
    CHECK_FALSE(json.get_object("n").has_value());
    CHECK(json.get_ints("l") == std::vector<std::int64_t>{1, 2});
    CHECK(json.get_ints("i") == std::vector<std::int64_t>{7});
    CHECK(json.get_doubles("l") == std::vector<double>{1.0, 2.0});
    CHECK(json.get_strings("t") == Strings{"a", "b"});
    CHECK(json.get_strings("s") == Strings{"글"});
    CHECK(json.get_strings("e").empty());
    CHECK(json.get_objects("absent").empty());
    CHECK(json.get_objects("m")[1].require_int("k", 0, 9) == 2);
    CHECK(json.has("i"));
    CHECK_FALSE(json.has("n"));
    CHECK(json.keys() == Strings{"b", "d", "e", "i", "l", "m", "n", "o", "s", "t"});
  }

  TEST_CASE("a list of many objects is read") {
    std::string text = "{\"list\": [";
    for (int i = 0; i < 100'000; ++i) {
      text += (i == 0 ? "{\"a\": [" : ", {\"a\": [") + std::to_string(i) + "]}";
    }
    const JsonObject json = parsed(text + "], \"last\": true}");
    CHECK(json.get_bool("last", false));
    const std::vector<JsonObject> list = json.get_objects("list");
    REQUIRE(list.size() == 100'000);
    CHECK(list.back().get_ints("a") == std::vector<std::int64_t>{99'999});
  }

  TEST_CASE("the type of a value is known, and whether it says anything") {
    struct Case {
      const char* value;
      JsonType type;
      bool is_blank;
    };
    constexpr Case kCases[] = {
        {"null", JsonType::kAbsent, true},        {"false", JsonType::kBool, true},
        {"true", JsonType::kBool, false},         {"0", JsonType::kNumber, false},
        {"1.5", JsonType::kNumber, false},        {R"("")", JsonType::kString, true},
        {R"("a")", JsonType::kString, false},     {"[]", JsonType::kList, true},
        {"[0]", JsonType::kList, false},          {"{}", JsonType::kObject, true},
        {R"({"b": 1})", JsonType::kObject, false}};
    for (const Case& c : kCases) {
      CAPTURE(c.value);
      const JsonObject object =
          JsonObject::parse("{\"a\": " + std::string(c.value) + "}", "x", ErrorCode::kBadModel);
      CHECK((object.type_of("a") == c.type));
      CHECK(object.is_blank("a") == c.is_blank);
    }
    const JsonObject empty = JsonObject::parse("{}", "x", ErrorCode::kBadModel);
    CHECK((empty.type_of("a") == JsonType::kAbsent));
    CHECK(empty.is_blank("a"));
  }

  TEST_CASE("an error names the file, the way to the key and what was found") {
    const JsonObject json = parsed(
        R"({"a": "x", "o": {"p": {"q": 1.5}}, "m": [{"k": "x"}, 3], "big": 9223372036854775808,
            "l": [1, "y"]})");
    const JsonObject inner = *json.get_object("o")->get_object("p");
    CHECK(inner.name() == "config.json: o.p");
    const struct {
      std::string message;
      std::string wanted;
    } kRows[] = {
        {message_of([&] { json.get_int("a", 0, 0, 9); }),
         "config.json: a: expected an integer, found string \"x\""},
        {message_of([&] { inner.require_int("q", 0, 9); }),
         "config.json: o.p.q: expected an integer, found 1.5"},
        {message_of([] { parsed(R"({"a": 512.0})").require_int("a", 0, 999); }),
         "config.json: a: expected an integer, found 512.0"},
        {message_of([&] { inner.require_int("absent", 0, 9); }),
         "config.json: o.p.absent: is missing; an integer is needed"},
        {message_of([&] { inner.require_double("absent", 0, 9); }),
         "config.json: o.p.absent: is missing; a number is needed"},
        {message_of([&] { inner.require_double("q", 2, 9); }),
         "config.json: o.p.q: expected 2 to 9, found 1.5"},
        {message_of([&] { json.require_double("a", 2, 9); }),
         "config.json: a: expected a number, found string \"x\""},
        {message_of([&] { json.require_string("absent"); }),
         "config.json: absent: is missing; a string is needed"},
        {message_of([&] { json.get_int("big", 0, 0, 9); }),
         "config.json: big: expected an integer of 64 bits, found 9223372036854775808"},
        {message_of([&] { json.get_objects("m"); }),
         "config.json: m[1]: expected an object, found 3"},
        {message_of([&] { json.get_objects("a"); }),
         "config.json: a: expected a list of objects, found string \"x\""},
        {message_of([&] { json.get_ints("l"); }),
         "config.json: l: expected an integer, found string \"y\""},
        {message_of([&] { json.get_doubles("o"); }),
         "config.json: o: expected a number, found an object"},
        {message_of([&] { json.get_bool("l", false); }),
         "config.json: l: expected true or false, found a list of 2"},
        {message_of([&] { json.get_object("l"); }),
         "config.json: l: expected an object, found a list of 2"},
    };
    const std::string advice = "; download the file again, or mend it";
    for (const auto& row : kRows) CHECK(row.message == row.wanted + advice);
    const JsonObject blank = parsed(R"({"a": null})");
    CHECK(message_of([&] { blank.require_string("a"); }) ==
          "config.json: a: is null; a string is needed" + advice);
    CHECK(message_of([&] { blank.require_int("a", 0, 9); }) ==
          "config.json: a: is null; an integer is needed" + advice);
    CHECK(message_of([] { parsed(R"({"a": 10})").require_int("a", 1, 9); }) ==
          "config.json: a: expected 1 to 9, found 10" + advice);
    const JsonObject element = parsed(R"({"m": [{}, {"k": 1}]})").get_objects("m")[1];
    CHECK(message_of([&] { element.require_string("k"); }) ==
          "config.json: m[1].k: expected a string, found 1" + advice);
  }

  TEST_CASE("what is no JSON object is refused with its place and what is wrong") {
    const struct {
      std::string text;
      const char* message;
    } kRows[] = {
        {"", "not valid JSON: it is empty"},
        {"version https://git-lfs.github.com/spec/v1\noid", "fetch it with `git lfs pull`"},
        {" \n", "not valid JSON: it is empty"},
        {"{", "column 2: it ends too early; a quote or bracket is not closed"},
        {"{\"a\": \"b", "column 9: it ends too early"},
        {"{\n", "column 2: it ends too early"},
        {"{\n \"a\": 1,\n\n", "line 2, column 9: it ends too early"},
        {"{\"a\": 1,}", "not valid JSON: column 9: a comma too many before }"},
        {"{\n \"a\": 1,\n}\n", "not valid JSON: line 3, column 1: a comma too many before }"},
        {"{\"a\": [1,]}", "column 10: a comma too many before ]"},
        {"{\"a\": 1} x", "column 10: a comma, a colon or the end is missing before x"},
        {"{\"a\": \"b\" \"c\": 1}",
         "column 11: a comma, a colon or the end is missing before \"c\""},
        {"{\"a\" 1}", "column 6: a comma, a colon or the end is missing before 1"},
        {"{\"a\": 1 \"b\": 2}", "column 9: a comma, a colon or the end is missing before \"b\""},
        {"{\"a\": }", "column 7: the value after : is missing"},
        {"{\"a\": , \"b\": 1}", "column 7: the value after : is missing"},
        {"{\"a\": NaN}", "column 7: unexpected NaN"},
        {"{\"a\": Infinity}", "column 7: unexpected Infinity"},
        {"{\"a\": tru, \"b\": 1}", "column 7: unexpected tru"},
        {"{\"a\": 1]", "column 8: unexpected ]"},
        {"{\"a\": 01}", "column 7: unexpected 01"},
        {"{\"하늘\": 하늘}", "column 8: unexpected 하"},
        {"hello", "column 1: { is expected, not \"hello\""},
        {"{\"a\": 1e999}", "not valid JSON: number overflow parsing '1e999'"},
        {"{\"a\": \"\xff\"}", "column 8: bytes that are no UTF-8"},
        {"{\"a\": \"\xed\xa0\x80\"}", "bytes that are no UTF-8"},
        {"{\"a\": \"\xed\x95\"}", "bytes that are no UTF-8"},
        {"{\"a\": \"\n\"}", "a control character; in a text a line break is \\n"},
        {"{\"a\": \"\\q\"}", "column 9: \\q is no escape of JSON; a backslash is \\\\"},
        {"{\"a\": \"\\\n\"}", "column 9: a control character; in a text a line break is \\n"},
        {"{\"a\": \"\\\x1b[2J\"}", "column 9: a control character"},
        {R"({"a": "x\ud800 하늘"})",
         R"(column 10: \ud800 is a surrogate without its pair, which is no character)"},
        {R"({"a": "\uDC00"})", R"(column 9: \uDC00 is a surrogate without its pair)"},
        {R"({"a": "\u12g4"})",
         R"(\u12g4 is no escape of JSON; \u and four hexadecimal digits are)"},
        {std::string("{\"a\"\0: 1}", 9), "column 5: a control character"},
        {std::string("{\"a\": 1}\0", 9), "column 9: a control character"},
        {std::string("{\"a\": 1}\0{}", 11), "column 9: a control character"},
        {"{'a': 1}", "column 2: text stands in double quotes, not in '"},
        {"[1]", "expected an object, found a list of 1"},
        {"7", "expected an object, found 7"},
        {"null", "expected an object, found null"},
        {"{\"a\": 1, \"a\": 2}", "key \"a\" appears twice"},
        {"{\"o\": [{\"k\": 1, \"k\": 1}]}", "key \"k\" appears twice"},
    };
    for (const auto& row : kRows) {
      CAPTURE(json_quote(row.text));
      const std::string message = message_of([&] { parsed(row.text); });
      CHECK(message.find("config.json: ") == 0);
      CHECK(message.find(row.message) != std::string::npos);
    }
    // Equal keys in different objects are not duplicates.
    CHECK_NOTHROW(parsed(R"({"k": {"k": 1}, "l": [{"k": 1}, {"k": 2}]})"));
  }

  TEST_CASE("nesting is bounded, however deep the file goes") {
    const auto nested = [](int depth) {
      return "{\"a\": " + std::string(static_cast<std::size_t>(depth - 1), '[') +
             std::string(static_cast<std::size_t>(depth - 1), ']') + "}";
    };
    CHECK_NOTHROW(parsed(nested(64)));
    CHECK(message_of([&] { parsed(nested(65)); }) ==
          "config.json: nested deeper than 64 levels; download the file again, or mend it");
    CHECK_FALSE(message_of([&] { parsed(nested(1'000'000)); }).empty());
  }

  TEST_CASE("messages stay short and valid when the file's text is neither") {
    const std::string text = "{\"" + std::string(100'000, 'k') + "\": \"" +
                             std::string(100'000, 'v') + "\", \"x\": tru\xff";
    CHECK(message_of([&] { parsed(text); }).size() < 400);
    const JsonObject json = parsed("{\"k\": \"" + std::string(100'000, 'v') + "\"}");
    CHECK(message_of([&] { json.get_bool("k", false); }).size() < 200);
  }

  TEST_CASE("a dotted path goes through objects and lists") {
    const JsonObject json = parsed(
        R"({"annotation": {"description_kr": "글", "n": 1, "z": null}, "l": ["a", {"b": "c"}]})");
    CHECK(json.find_string_at("annotation.description_kr") == "글");
    CHECK(json.find_string_at("l.0") == "a");
    CHECK(json.find_string_at("l.1.b") == "c");
    for (const char* absent :
         {"", ".", "x", "annotation.", "annotation.x", "l.2", "l.-1", "l.x", "l.0.x",
          "annotation.description_kr.x", "annotation.z", "l.99999999999999999999"}) {
      CAPTURE(std::string(absent));
      CHECK_FALSE(json.find_string_at(absent).has_value());
    }
    CHECK(message_of([&] { json.find_string_at("annotation.n"); }) ==
          "config.json: annotation.n: expected a string, found 1; download the file again, or mend "
          "it");
  }

  TEST_CASE("a file is opened by path, and a missing one is told as such") {
    const std::filesystem::path path = std::filesystem::path(CAPTION_TEST_TMP) / "open.json";
    std::ofstream(path) << R"({"a": 1})";
    CHECK(JsonObject::open(path, ErrorCode::kBadModel).require_int("a", 0, 1) == 1);
    std::filesystem::remove(path);
    CHECK_THROWS_AS(JsonObject::open(path, ErrorCode::kBadModel), Error);
  }

  TEST_CASE("what is quoted reads back") {
    CHECK(json_quote("a\"\\\n\r\t\x01\x1f") == R"("a\"\\\n\r\t\u0001\u001f")");
    CHECK(json_quote("글\u2028😀\x7f") == "\"글\u2028😀\x7f\"");
    CHECK(json_quote("a\xff") == "\"a\uFFFD\"");
    CHECK(json_quote_start("abc", 3) == "\"abc\"");
    CHECK(json_quote_start("abcd", 3) == "\"abc\"...");
    CHECK(json_quote_start("a글", 3) == "\"a\"...");
    std::string all;
    for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
    CHECK(parsed("{\"k\": " + json_quote(all) + "}").require_string("k") == all);
  }

  TEST_CASE("numbers are the shortest that read back as the same double") {
    CHECK(json_number(0.1) == "0.1");
    CHECK(json_number(-3.0) == "-3");
    CHECK(json_number(1e22) == "1e+22");
    CHECK(json_number(std::nan("")) == "null");
    CHECK(json_number(-std::numeric_limits<double>::infinity()) == "null");
    std::mt19937_64 rng(5);
    for (int i = 0; i < 10000; ++i) {
      const double value = std::bit_cast<double>(rng());
      if (!std::isfinite(value)) continue;
      CHECK(parsed("{\"k\": " + json_number(value) + "}").get_double("k", 0.0) == value);
    }
  }

  TEST_CASE("numbers are rounded to places, without zeros nobody asked for") {
    CHECK(json_number(1.0 / 3.0, 4) == "0.3333");
    CHECK(json_number(2.5, 4) == "2.5");
    CHECK(json_number(0.29999999999999999, 2) == "0.3");
    CHECK(json_number(-0.0001, 2) == "0");
    CHECK(json_number(1234.5678, 0) == "1235");
    CHECK(json_number(1e300, 2) == "1e+300");
    CHECK(json_number(std::nan(""), 2) == "null");
  }
}

}  // namespace
}  // namespace caption
