#include "option_types.h"

#include <algorithm>

#include "base/join.h"
#include "base/nearest.h"
#include "base/units.h"

namespace caption::cli {

std::string expected_text(const std::string& what, const std::string& found) {
  return "expected " + what + ", found " + json_quote(found);
}

std::string not_one_of(const std::vector<std::string>& names, const std::string& found) {
  return expected_text("one of " + join(names), found) + did_you_mean(found, names);
}

CLI::Option* limit_to(CLI::Option* option, const std::vector<std::string>& names) {
  const auto find = [names](std::string& text) {
    const bool is_known = std::find(names.begin(), names.end(), text) != names.end();
    return is_known ? std::string() : not_one_of(names, text);
  };
  // The check has no description, because the type name lists the words.
  return option->check(CLI::Validator(find, ""))->type_name(join(names, "|"));
}

CLI::Option* add_size(CLI::App& command, const std::string& name,
                      std::optional<std::int64_t>& bytes, std::int64_t min_bytes,
                      const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [&bytes, name, min_bytes](const std::string& text) {
            const std::optional<std::int64_t> size = parse_bytes(text);
            if (!size.has_value()) {
              throw CLI::ValidationError(
                  name, expected_text(
                            is_size(text) ? "less than 8192PiB" : std::string(kSizeExample), text));
            }
            if (*size < min_bytes) {
              throw CLI::ValidationError(name,
                                         expected_text(exact_bytes(min_bytes) + " or more", text) +
                                             "; a plain number is bytes");
            }
            bytes = *size;
          },
          help)
      ->type_name(kSizeType);
}

}  // namespace caption::cli
