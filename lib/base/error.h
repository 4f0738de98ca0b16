// base/error.h: the one exception type of the project, and the checks that throw it.
//
// Exceptions end a request; return values tell expected outcomes. A message names the object, what
// was found, what was wanted, and the way out. `main` maps the code to the process's exit code;
// the pipeline writes code and message into the failed clip's record.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace caption {

enum class ErrorCode {
  // The command line.
  kUsage,
  // Files that configure a run.
  kBadPreset,
  kBadModel,
  kBadReference,
  kOutputConflict,  // the output belongs to a run with another configuration
  // The machine.
  kUnavailable,  // device, format or feature that this build or machine does not have
  kOutOfMemory,
  kIo,  // reading or writing failed on the system's side
  // One clip.
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
  // Our own bug.
  kInternal,
};

// snake_case name of the code as records carry it: "not_found", "no_frames", ...
std::string_view error_code_name(ErrorCode code);

// True for what the machine lacked or could not do, whatever the file at hand holds: kOutOfMemory
// and kIo. Code that gives errors a code of its own ("a bad model file") passes these on.
bool is_of_machine(ErrorCode code);

// The code of a system call's errno: kNotFound, kUnreadable, kOutOfMemory (memory, descriptors or
// threads), else kIo.
ErrorCode error_code_of_errno(int error_number);
// What strerror() says, and for a limit of this process what raises it.
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

// Throws Error(kInternal) with file, line and condition in every build. `message` is anything a
// std::string can be made from; it is evaluated only on failure.
#define CAPTION_CHECK(condition, message)                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      ::caption::internal::throw_check_failure(__FILE__, __LINE__, #condition, (message)); \
    }                                                                                      \
  } while (false)

// The same in debug builds only, for hot loops.
#ifdef NDEBUG
#define CAPTION_DCHECK(condition, message) static_cast<void>(0)
#else
#define CAPTION_DCHECK(condition, message) CAPTION_CHECK(condition, message)
#endif
