#include "exit_codes.h"

namespace caption::cli {

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    // A path on the command line; the failure of a clip is in its record instead.
    case ErrorCode::kNotFound:
    case ErrorCode::kOutputConflict: return kExitUsage;
    case ErrorCode::kBadPreset:
    case ErrorCode::kBadModel:
    case ErrorCode::kBadReference: return kExitBadFile;
    case ErrorCode::kUnavailable:
    case ErrorCode::kOutOfMemory: return kExitUnavailable;
    case ErrorCode::kIo: return kExitIo;
    case ErrorCode::kNotRegularFile:
    case ErrorCode::kUnreadable:
    case ErrorCode::kNotVideo:
    case ErrorCode::kNoVideoStream:
    case ErrorCode::kNoFrames:
    case ErrorCode::kTooLarge:
    case ErrorCode::kTimeout:
    case ErrorCode::kChanged:
    case ErrorCode::kDecode:
    case ErrorCode::kTooLong: return kExitClipsFailed;
    case ErrorCode::kCancelled: return kExitInterrupted;
    case ErrorCode::kInternal: return kExitInternal;
  }
  return kExitInternal;
}

}  // namespace caption::cli
