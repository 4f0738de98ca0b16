// apps/caption-cli/exit_codes.h: the exit codes of the process, as listed in the README and manual.
#pragma once

#include <array>

#include "base/error.h"

namespace caption::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitClipsFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadFile = 3;
inline constexpr int kExitUnavailable = 4;
inline constexpr int kExitIo = 5;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitInterrupted = 130;
// As of a process that SIGPIPE (13) ends, which shells report as 128 + 13.
inline constexpr int kExitReaderGone = 141;

// Description of each exit code for the manual and the README.
struct ExitCodeText {
  int code;
  const char* meaning;
};
inline constexpr std::array kExitCodeTexts = {
    ExitCodeText{kExitOk, "every clip is captioned"},
    ExitCodeText{kExitClipsFailed,
                 "some clips failed, each with its record, or a folder could not be read"},
    ExitCodeText{kExitUsage,
                 "wrong usage, a path on the command line that is not there, weights asked for as "
                 "codes (--dtype awq) that the model does not hold, nothing to caption in what was "
                 "named, an output of another configuration or one that another run is writing"},
    ExitCodeText{kExitBadFile, "bad preset, model, captions or references"},
    ExitCodeText{kExitUnavailable, "device or feature unavailable, or out of memory"},
    ExitCodeText{kExitIo,
                 "the output could not be written, or was touched by another program meanwhile"},
    ExitCodeText{kExitInternal, "a fault of caption-cli itself"},
    ExitCodeText{kExitInterrupted, "interrupted by Ctrl-C, SIGTERM or SIGHUP"},
    ExitCodeText{kExitReaderGone, "the reader of standard output has closed it, as head does"}};

int exit_code_of(ErrorCode code);

}  // namespace caption::cli
