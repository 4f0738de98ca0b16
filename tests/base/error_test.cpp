#include <doctest/doctest.h>

#include <cerrno>
#include <set>
#include <string>

#include "base/error.h"

namespace caption {
namespace {

TEST_SUITE("base/error") {
  TEST_CASE("every code has a snake_case name of its own") {
    std::set<std::string> names;
    const int num_codes = static_cast<int>(ErrorCode::kInternal) + 1;
    for (int i = 0; i < num_codes; ++i) {
      const std::string name(error_code_name(static_cast<ErrorCode>(i)));
      CAPTURE(name);
      CHECK_FALSE(name.empty());
      CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
      names.insert(name);
    }
    CHECK(names.size() == static_cast<std::size_t>(num_codes));
    CHECK(error_code_name(ErrorCode::kNoFrames) == "no_frames");
  }

  TEST_CASE("a failed check names file, condition and message and is internal") {
    int num_evaluations = 0;
    const auto message = [&] {
      ++num_evaluations;
      return std::string("two is not three");
    };
    CHECK_NOTHROW([&] { CAPTION_CHECK(2 == 2, message()); }());
    CHECK(num_evaluations == 0);
    try {
      CAPTION_CHECK(2 == 3, message());
      FAIL("the check passed");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInternal);
      const std::string text = error.what();
      CHECK(text.find("error_test.cpp:") != std::string::npos);
      CHECK(text.find("2 == 3: two is not three") != std::string::npos);
    }
  }

  TEST_CASE("an errno has a code: what the machine lacks is told from what a file is") {
    struct Case {
      int error_number;
      ErrorCode code;
      bool is_of_machine;
    };
    constexpr Case kCases[] = {{ENOENT, ErrorCode::kNotFound, false},
                               {ENOTDIR, ErrorCode::kNotFound, false},
                               {EACCES, ErrorCode::kUnreadable, false},
                               {EPERM, ErrorCode::kUnreadable, false},
                               {EAGAIN, ErrorCode::kOutOfMemory, true},
                               {EMFILE, ErrorCode::kOutOfMemory, true},
                               {ENFILE, ErrorCode::kOutOfMemory, true},
                               {ENOMEM, ErrorCode::kOutOfMemory, true},
                               {EIO, ErrorCode::kIo, true},
                               {ENOSPC, ErrorCode::kIo, true}};
    for (const Case& c : kCases) {
      CAPTURE(c.error_number);
      CHECK(error_code_of_errno(c.error_number) == c.code);
      CHECK(is_of_machine(error_code_of_errno(c.error_number)) == c.is_of_machine);
    }
    CHECK(describe_errno(EACCES) == "Permission denied (chmod or chown grants access)");
    CHECK(describe_errno(EMFILE) == "Too many open files (ulimit -n raises the limit)");
    CHECK(describe_errno(EFBIG) == "File too large (ulimit -f raises the limit)");
    CHECK(describe_errno(ELOOP) ==
          "Too many levels of symbolic links (a link leads back to itself; remove it, or name the "
          "file itself)");
    CHECK(describe_errno(EIO) == "Input/output error");
  }
}

}  // namespace
}  // namespace caption
