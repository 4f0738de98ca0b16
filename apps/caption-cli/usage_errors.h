// apps/caption-cli/usage_errors.h: what is wrong with a command line, in one sentence with the way
// out: the name that was meant, the value that is missing, an example.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace caption::cli {

// Describes `error`, which root.parse() threw for `arguments` (without the program's name). The
// caller handles requests for help and for the version, which CLI11 throws as well.
std::string describe_usage_error(const CLI::App& root, const std::vector<std::string>& arguments,
                                 const CLI::ParseError& error);

}  // namespace caption::cli
