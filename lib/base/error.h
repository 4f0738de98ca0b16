// base/error.h: the only exception type of the project, and the checks that throw it.
//
// Exceptions end a request; expected outcomes are return values. A message names the object, what
// was found, what was expected, and a remedy. `main` maps the code to the process's exit code; the
// pipeline writes code and message into the failed clip's record.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace caption {

enum class ErrorCode {
  // Errors of the command line.
  kUsage,
  // Errors of the files that configure a run.
  kBadPreset,
  kBadModel,
  kBadReference,
  kOutputConflict,  // the output file belongs to a run with another configuration
  // Errors of the machine.
  kUnavailable,  // device, format or feature that this build or machine does not have
  kOutOfMemory,
  kIo,  // the operating system failed to read or write
  // Errors of one clip.
  kNotFound,
  kNotRegularFile,
  kUnreadable,
  kNotVideo,
  kNoVideoStream,
  kNoFrames,
  kTooLarge,
  kTimeout,
  kChanged,  // the file changed while it was read
  kDecode,
  kTooLong,  // prompt and vision tokens exceed what the model or the engine can hold
  kCancelled,
  // A bug of this program.
  kInternal,
};

// snake_case name of the code, as it appears in records: "not_found", "no_frames", ...
std::string_view error_code_name(ErrorCode code);

// True for errors that the machine causes rather than the content of a file: kOutOfMemory and kIo.
// Code that replaces error codes by its own (kBadModel, for example) keeps these two.
bool is_of_machine(ErrorCode code);

// The code of a system call's errno: kNotFound, kUnreadable, kOutOfMemory (memory, descriptors or
// threads), else kIo.
ErrorCode error_code_of_errno(int error_number);
// The text of strerror(), with what to do about EACCES, ELOOP, EMFILE, EFBIG, EDQUOT and
// ENOSPC.
std::string describe_errno(int error_number);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

namespace internal {
[[noreturn]] void throw_check_failure(const char* file, int line, const char* condition,
                                      const std::string& message);
}  // namespace internal

}  // namespace caption

// Throws Error(kInternal) with file, line and condition, in every build. `message` is any
// expression that converts to std::string; it is evaluated only on failure.
#define CAPTION_CHECK(condition, message)                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      ::caption::internal::throw_check_failure(__FILE__, __LINE__, #condition, (message)); \
    }                                                                                      \
  } while (false)

// CAPTION_CHECK in debug builds only, for hot loops.
#ifdef NDEBUG
#define CAPTION_DCHECK(condition, message) static_cast<void>(0)
#else
#define CAPTION_DCHECK(condition, message) CAPTION_CHECK(condition, message)
#endif
