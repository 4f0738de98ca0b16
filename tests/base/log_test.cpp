// The bytes that log functions write to descriptor 2.
#include "base/log.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/stderr_of.h"

namespace caption {
namespace {

using test::stderr_of;

TEST_SUITE("base/log") {
  TEST_CASE("a line names its level and its module") {
    CHECK(stderr_of([] { log_info("run", "2 clips"); }) == "run: 2 clips\n");
    CHECK(stderr_of([] { log_warning("cache", "is full"); }) == "warning: cache: is full\n");
    CHECK(stderr_of([] { log(LogLevel::kError, "cli", ""); }) == "error: cli: \n");
    CHECK(stderr_of([] { log_debug("run", "below the level"); }).empty());
    const auto log_twice = [] {
      for (int i = 0; i < 2; ++i) {
        log_once(LogLevel::kWarning, "config", "is looked up");
        log_once(LogLevel::kDetail, "config", "below the level");
        log_once(LogLevel::kInfo, "config", "is found");
      }
    };
    CHECK(stderr_of(log_twice) == "warning: config: is looked up\nconfig: is found\n");
    CHECK(stderr_of(log_twice).empty());
    const std::string long_text(1 << 20, 'x');
    CHECK(stderr_of([&] { log_info("run", long_text); }) == "run: " + long_text + "\n");
  }

  TEST_CASE("what a message quotes begins no line and moves no cursor") {
    CHECK(stderr_of([] { log_warning("run", "a\nerror: b\x1b[2Jc"); }) ==
          "warning: run: a\uFFFDerror: b\uFFFD[2Jc\n");
    CHECK(stderr_of([] { log_info("run", "\u202E눈.mp4"); }) == "run: \uFFFD눈.mp4\n");
    CHECK(stderr_of([] { log_once(LogLevel::kInfo, "run", "\r"); }) == "run: \uFFFD\n");
  }

  TEST_CASE("levels below the one that is set are dropped") {
    const auto at_level = [](LogLevel level) {
      return stderr_of([&] {
        set_log_level(level);
        log_debug("run", "times");
        log_detail("run", "clip");
        log_info("run", "end");
        set_log_level(LogLevel::kInfo);
      });
    };
    CHECK(at_level(LogLevel::kInfo) == "run: end\n");
    CHECK(at_level(LogLevel::kDetail) == "run: clip\nrun: end\n");
    CHECK(at_level(LogLevel::kDebug) == "debug: run: times\nrun: clip\nrun: end\n");
  }

  TEST_CASE("the words that warn are coloured where that is wished") {
    const std::string text = stderr_of([] {
      set_log_colour(true);
      log_info("run", "2 clips");
      log_warning("cache", "is full");
      log(LogLevel::kError, "cli", "no");
      set_log_colour(false);
      log_warning("cache", "is full");
    });
    CHECK(text ==
          "run: 2 clips\n\033[33mwarning:\033[0m cache: is full\n"
          "\033[31merror:\033[0m cli: no\nwarning: cache: is full\n");
  }

  TEST_CASE("colours are for terminals that know them and users who have not refused them") {
    CHECK(wants_colour(true, "xterm-256color", nullptr));
    CHECK(wants_colour(true, "xterm", ""));
    CHECK_FALSE(wants_colour(false, "xterm", nullptr));
    CHECK_FALSE(wants_colour(true, "dumb", nullptr));
    CHECK_FALSE(wants_colour(true, "", nullptr));
    CHECK_FALSE(wants_colour(true, nullptr, nullptr));
    CHECK_FALSE(wants_colour(true, "xterm", "1"));
    CHECK_FALSE(wants_colour(true, "xterm", "0"));
  }

  TEST_CASE("lines come above the status line, which stays the last") {
    const std::string text = stderr_of([] {
      set_status_line("1 of 2");
      log_info("run", "something");
      set_status_line("");
      set_status_line("");
    });
    CHECK(text == "\r\033[K1 of 2\r\033[Krun: something\n1 of 2\r\033[K");
  }

  TEST_CASE("a line that stderr does not take is lost, and nothing else happens") {
    static_assert(noexcept(log(LogLevel::kInfo, "run", "text")));
    static_assert(noexcept(set_status_line("text")));
    const int before = ::dup(STDERR_FILENO);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(::dup2(full, STDERR_FILENO) >= 0);
    log_info("run", "nobody reads this");
    ::close(STDERR_FILENO);
    log_info("run", "nor this");
    ::dup2(before, STDERR_FILENO);
    ::close(before);
    ::close(full);
    CHECK(stderr_of([] { log_info("run", "but this"); }) == "run: but this\n");
  }
}

}  // namespace
}  // namespace caption
