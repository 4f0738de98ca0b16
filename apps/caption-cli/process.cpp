#include "process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "environment.h"
#include "exit_codes.h"
#include "records/file_name.h"
#include "stdout_buffer.h"
#include "write_text.h"

namespace caption::cli {
namespace {

void open_standard_descriptors() {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(wanted, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is `wanted`, since all lower ones are open. A
    // closed stdout is opened for reading, so that writing results to it fails.
    if (::open("/dev/null", wanted == STDERR_FILENO ? O_WRONLY : O_RDONLY) != wanted) {
      ::_exit(kExitUnavailable);  // no descriptor is left to report it on
    }
  }
}

// The stack that glibc gives a thread where RLIMIT_STACK is unlimited.
constexpr rlim_t kStackBytes = rlim_t{2} << 20;

// Whether the process has a limit that is lower than `wanted` bytes.
bool is_below(const auto resource, rlim_t wanted) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur < wanted;
}

bool can_map(std::size_t num_bytes) {
  void* mapped = ::mmap(nullptr, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  ::munmap(mapped, num_bytes);
  return true;
}

// Makes the kernel grow the calling thread's stack to half of kStackBytes, which is more than any
// command uses.
[[gnu::noinline]] void touch_stack() {
  constexpr std::size_t kPageBytes = 4096;
  volatile char bytes[kStackBytes / 2];
  for (std::size_t end = sizeof bytes; end >= kPageBytes; end -= kPageBytes) bytes[end - 1] = 0;
}

// A call of main() in a thread.
struct MainCall {
  int (*main)(int argc, char** argv) noexcept;
  int argc;
  char** argv;
  int exit_code;
};

void* make_call(void* argument) {
  auto& call = *static_cast<MainCall*>(argument);
  call.exit_code = call.main(call.argc, call.argv);
  return nullptr;
}

int fail_out_of_memory() {
  log(LogLevel::kError, "caption-cli",
      "out of memory; use a smaller model, batch or --max-frame-pixels, or fewer --threads");
  return kExitUnavailable;
}

// Implements report_exception(), but may throw when there is no memory for the message.
int try_to_report_exception() {
  try {
    throw;
  } catch (const Error& error) {
    const bool is_about_stdout = error.code() == ErrorCode::kIo && !std::cout;
    if (is_about_stdout && stdout_reader_is_gone()) return kExitReaderGone;
    if (error.code() == ErrorCode::kCancelled) {
      log(LogLevel::kWarning, "caption-cli", one_line(error.what()));
      return kExitInterrupted;
    }
    return fail(error.what(), exit_code_of(error.code()));
  } catch (const std::system_error& error) {
    const ErrorCode code = error_code_of_errno(error.code().value());
    const bool lacks_memory = code == ErrorCode::kOutOfMemory;  // or threads, or descriptors
    return fail(std::string(error.what()) + (lacks_memory ? "; lower --threads" : ""),
                exit_code_of(lacks_memory ? code : ErrorCode::kIo));
  } catch (const std::bad_alloc&) {
    return fail_out_of_memory();
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(), kExitInternal);
  } catch (...) {
    return fail("internal error: an exception of an unknown type", kExitInternal);
  }
}

[[noreturn]] void end_process() {
  if (std::current_exception() == nullptr) {
    // A noexcept function of the standard library that failed to allocate ends here without an
    // exception.
    if (errno == ENOMEM) ::_exit(fail_out_of_memory());
    log(LogLevel::kError, "caption-cli", "internal error: terminated");
    ::_exit(kExitInternal);
  }
  try {
    throw;
  } catch (...) {
    ::_exit(report_exception());
  }
}

}  // namespace

std::string one_line(std::string_view message) {
  std::string out;
  for (;;) {
    const std::size_t backslash = message.find('\\');
    out += records::escape_file_name(message.substr(0, backslash));
    if (backslash == std::string_view::npos) return out;
    out += '\\';
    message.remove_prefix(backslash + 1);
  }
}

void prepare_process() {
  open_standard_descriptors();
  set_log_colour(wants_colour(stderr_is_terminal(), environment_variable("TERM"),
                              environment_variable("NO_COLOR")));
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(&end_process);
  install_stdout_buffer();
}

int run_on_large_stack(int (*main)(int argc, char** argv) noexcept, int argc, char** argv) {
  if (!is_below(RLIMIT_STACK, kStackBytes)) {
    if (is_below(RLIMIT_AS, RLIM_INFINITY)) {
      if (!can_map(kStackBytes)) return fail_out_of_memory();
      touch_stack();
    }
    return main(argc, argv);
  }
  MainCall call{.main = main, .argc = argc, .argv = argv, .exit_code = kExitInternal};
  pthread_t thread{};
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  // Threads of libraries have this size as well.
  const bool is_started = ::pthread_setattr_default_np(&attributes) == 0 &&
                          ::pthread_create(&thread, &attributes, make_call, &call) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!is_started) return fail_out_of_memory();
  ::pthread_join(thread, nullptr);
  return call.exit_code;
}

int fail(const std::string& message, int exit_code) {
  log(LogLevel::kError, "caption-cli", one_line(message));
  return exit_code;
}

int report_exception() noexcept {
  try {
    return try_to_report_exception();
  } catch (...) {
    return fail_out_of_memory();
  }
}

}  // namespace caption::cli
