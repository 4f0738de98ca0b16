// apps/caption-cli/usage_errors.h: messages for errors in a command line: one sentence with a
// remedy, such as the nearest name, the missing value or an example.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace caption::cli {

// Describes the first value that CLI11 would accept and nobody means: another option in its place
// ("--model --frames 8"), an empty text (of a shell's unset variable) where it means nothing, or a
// list with an empty item ("--sweep 1,,2"). std::nullopt when there is none.
std::optional<std::string> describe_bad_value(const CLI::App& root,
                                              const std::vector<std::string>& arguments);

// Describes `error`, which root.parse() threw for `arguments` (without the program's name). The
// caller handles requests for help and for the version, which CLI11 throws as well.
std::string describe_usage_error(const CLI::App& root, const std::vector<std::string>& arguments,
                                 const CLI::ParseError& error);

}  // namespace caption::cli
