// apps/caption-cli/option_types.h: types of option values and checks for them.
//
// The type name of an option (CLI::Option::type_name) tells --help, the manual and the completions
// what its value may be:
//   "a|b|c"                one of these words
//   "a,b,c"                a list of these words, separated by commas
//   FILE, FILE.png         a file
//   FOLDER, PATH           a folder; a file or a folder
//   MODEL, PRESET          a folder or a model's name; a preset's name or file
//   N, SIZE, TIME, ...     any other value, named by its kind
// The description of a check() ("1 to 4096") follows the type name as the limits of the value.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/join.h"
#include "base/json.h"
#include "base/units.h"

namespace caption::cli {

inline constexpr const char* kFileType = "FILE";
inline constexpr const char* kFolderType = "FOLDER";
inline constexpr const char* kPathType = "PATH";
inline constexpr const char* kModelType = "MODEL";
inline constexpr const char* kPresetType = "PRESET";
inline constexpr const char* kNumberType = "N";
inline constexpr const char* kSizeType = "SIZE";
inline constexpr const char* kTimeType = "TIME";
inline constexpr const char* kTextType = "TEXT";

// Returns "expected 1 to 4096, found "0"", the message for a value that an option rejects.
std::string expected_text(const std::string& what, const std::string& found);

// Returns that message for a value that is not in `names`, with the nearest name.
std::string not_one_of(const std::vector<std::string>& names, const std::string& found);

// A check for numbers from `min` to `max`.
template <class T>
CLI::Validator in_range(T min, T max) {
  const auto number = [](T value) {
    if constexpr (std::is_integral_v<T>) return std::to_string(value);
    return json_number(static_cast<double>(value));
  };
  const std::string range = number(min) + " to " + number(max);
  return {[=](std::string& text) {
            T value{};
            std::istringstream stream(text);
            stream.imbue(std::locale::classic());
            const bool is_number = static_cast<bool>(stream >> value) && stream.peek() == EOF;
            const bool is_in = is_number && value >= min && value <= max;
            // CLI11 would read 010 as octal.
            if (is_in && has_leading_zeros(text)) {
              return expected_text(range, text) + "; leave out the leading zeros";
            }
            if (is_in && text.starts_with('+')) {
              return expected_text(range, text) + "; leave out the sign";
            }
            if (is_in) return std::string();
            const char* const kind =
                std::is_integral_v<T> ? "a whole number from " : "a number from ";
            return expected_text(is_number ? range : kind + range, text);
          },
          range};
}

// Limits the option to these words, which its type name then lists. Returns the option.
CLI::Option* limit_to(CLI::Option* option, const std::vector<std::string>& names);

// Adds an option whose value is one of the names of `choices`, listed in the given order.
template <class E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, E& value,
                        const std::vector<std::pair<std::string, E>>& choices,
                        const std::string& help) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  return command
      .add_option_function<std::string>(
          name,
          [&value, choices, names, name](const std::string& text) {
            for (const auto& choice : choices) {
              if (choice.first != text) continue;
              value = choice.second;
              return;
            }
            throw CLI::ValidationError(name, not_one_of(names, text));
          },
          help)
      ->type_name(join(names, "|"));
}

// Adds an option for a size in bytes (base/units.h) of at least `min_bytes`.
CLI::Option* add_size(CLI::App& command, const std::string& name,
                      std::optional<std::int64_t>& bytes, std::int64_t min_bytes,
                      const std::string& help);

}  // namespace caption::cli
