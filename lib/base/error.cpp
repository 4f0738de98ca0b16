#include "base/error.h"

#include <cerrno>
#include <cstring>

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
    case ErrorCode::kChanged: return "changed";
    case ErrorCode::kDecode: return "decode";
    case ErrorCode::kTooLong: return "too_long";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

bool is_of_machine(ErrorCode code) {
  return code == ErrorCode::kOutOfMemory || code == ErrorCode::kIo;
}

ErrorCode error_code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG: return ErrorCode::kUnreadable;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return ErrorCode::kOutOfMemory;
    default: return ErrorCode::kIo;
  }
}

std::string describe_errno(int error_number) {
  const std::string text = std::strerror(error_number);
  switch (error_number) {
    case EACCES: return text + " (chmod or chown grants access)";
    case EMFILE: return text + " (ulimit -n raises the limit)";
    case EFBIG: return text + " (ulimit -f raises the limit)";
    case ELOOP: return text + " (a link leads back to itself; remove it, or name the file itself)";
    case EDQUOT:
    case ENOSPC: return text + " (make room, or name an output elsewhere)";
    default: return text;
  }
}

namespace internal {

void throw_check_failure(const char* file, int line, const char* condition,
                         const std::string& message) {
  throw Error(ErrorCode::kInternal, std::string(file) + ":" + std::to_string(line) +
                                        ": check failed: " + condition + ": " + message);
}

}  // namespace internal
}  // namespace caption
