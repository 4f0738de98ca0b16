// apps/caption-cli/terminal.h: what is known of the terminal that a text goes to.
#pragma once

#include <cstddef>

namespace caption::cli {

// Columns for a text on standard output: the terminal's, else those of $COLUMNS, else 80; never
// fewer than 40.
std::size_t stdout_columns();

}  // namespace caption::cli
