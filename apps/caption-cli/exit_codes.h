// apps/caption-cli/exit_codes.h: the process's exit codes (design.md §8).
#pragma once

#include "base/error.h"

namespace caption::cli {

inline constexpr int kExitOk = 0;  // everything captioned
inline constexpr int kExitClipsFailed =
    1;  // some clips failed, each with its record, or folders were unreadable
inline constexpr int kExitUsage =
    2;  // the command line and what it names, or an output of another run
inline constexpr int kExitBadFile = 3;        // preset, model or reference file
inline constexpr int kExitUnavailable = 4;    // device or feature not there, or out of memory
inline constexpr int kExitIo = 5;             // the system could not read or write
inline constexpr int kExitInternal = 70;      // our own bug
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, SIGTERM, or nobody reads stdout any more

int exit_code_of(ErrorCode code);

}  // namespace caption::cli
