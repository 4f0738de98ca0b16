#include "base/error.h"

namespace caption {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kBadPreset: return "bad_preset";
    case ErrorCode::kBadModel: return "bad_model";
    case ErrorCode::kBadReference: return "bad_reference";
    case ErrorCode::kOutputConflict: return "output_conflict";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kIo: return "io_error";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kNotRegularFile: return "not_regular_file";
    case ErrorCode::kUnreadable: return "unreadable";
    case ErrorCode::kNotVideo: return "not_video";
    case ErrorCode::kNoVideoStream: return "no_video_stream";
    case ErrorCode::kNoFrames: return "no_frames";
    case ErrorCode::kTooLarge: return "too_large";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kDecode: return "decode";
    case ErrorCode::kTooLong: return "too_long";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

namespace internal {

void throw_check_failure(const char* file, int line, const char* condition,
                         const std::string& message) {
  throw Error(ErrorCode::kInternal, std::string(file) + ":" + std::to_string(line) +
                                        ": check failed: " + condition + ": " + message);
}

}  // namespace internal
}  // namespace caption
