// apps/caption-cli/terminal.h: the width of the terminal.
#pragma once

#include <cstddef>

namespace caption::cli {

// Width for text on standard output: the terminal's, otherwise $COLUMNS, otherwise 80; at least 40.
std::size_t stdout_columns();

}  // namespace caption::cli
