// Any bytes as a JSON file: an Error(kBadModel), or an object whose every getter answers or throws
// one. Input: the file.
#include <limits>
#include <string>

#include "base/json.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"

namespace caption {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <class Work>
void expect_error_or_nothing(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel, "errors carry the code given at parsing");
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
}

void read_everything(const JsonObject& object, int depth) {
  fuzz::require(depth <= 64, "nesting is bounded");
  for (const std::string& key : object.keys()) {
    fuzz::require(is_valid_utf8(key), "keys are valid UTF-8");
    expect_error_or_nothing([&] { object.get_int(key, 0, kMin, kMax); });
    expect_error_or_nothing([&] { object.get_double(key, 0.0); });
    expect_error_or_nothing([&] { object.get_bool(key, false); });
    expect_error_or_nothing([&] { object.get_ints(key); });
    expect_error_or_nothing([&] { object.get_doubles(key); });
    expect_error_or_nothing([&] { object.get_strings(key); });
    expect_error_or_nothing([&] { object.find_string_at(key + ".0"); });
    expect_error_or_nothing([&] {
      const std::string text = object.require_string(key);
      const std::string quoted = "{\"k\": " + json_quote(text) + "}";
      const JsonObject back = JsonObject::parse(quoted, "quoted", ErrorCode::kBadModel);
      fuzz::require(back.require_string("k") == text, "what is quoted reads back");
    });
    expect_error_or_nothing([&] {
      if (const auto inner = object.get_object(key)) read_everything(*inner, depth + 1);
    });
    expect_error_or_nothing([&] {
      for (const JsonObject& inner : object.get_objects(key)) read_everything(inner, depth + 1);
    });
  }
}

}  // namespace
}  // namespace caption

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  caption::expect_error_or_nothing([&] {
    const auto text = caption::fuzz::as_text(bytes, size);
    const auto root =
        caption::JsonObject::parse(text, "config.json", caption::ErrorCode::kBadModel);
    caption::read_everything(root, 1);
  });
  return 0;
}
