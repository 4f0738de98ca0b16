// Sizes and times: accepted and rejected spellings, and round trips of formatted values.
#include "base/units.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

namespace caption {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST_SUITE("base/units") {
  TEST_CASE("a size is a number of bytes, or one of powers of 1024 or 1000") {
    struct Case {
      const char* text;
      std::int64_t bytes;
    };
    constexpr Case kCases[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"1K", 1024},
        {"1KiB", 1024},
        {"1kB", 1000},
        {"800M", 800LL << 20},
        {"800MB", 800'000'000},
        {"4GiB", 4LL << 30},
        {"4 GiB", 4LL << 30},
        {"4gib", 4LL << 30},
        {"4g", 4LL << 30},
        {"4GB", 4'000'000'000},
        {"1.5G", 3LL << 29},
        {"0.57kB", 570},
        {"0.0009kB", 0},
        {"1.9999999999999999999999B", 1},
        {"2T", 2LL << 40},
        {"1P", 1LL << 50},
        {"1PB", 1'000'000'000'000'000},
        {"0009", 9},
        {"9223372036854775807", kMost},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.text);
      CHECK(parse_bytes(c.text) == c.bytes);
    }
  }

  TEST_CASE("what is no size, or too large for 64 bits, is none") {
    for (const char* text : {"",
                             " ",
                             "-1",
                             "-1G",
                             "+1",
                             "G",
                             "4X",
                             "4Gi",
                             "4GiBs",
                             "4  GiB",
                             "4 ",
                             " 4",
                             "1.",
                             ".5G",
                             "1.G",
                             "1,5G",
                             "1e3",
                             "0x10",
                             "nan",
                             "inf",
                             "4G4M",
                             "9223372036854775808",
                             "8589934592G",
                             "9007199254740992K",
                             "99999999999999999999",
                             "8191.9999P",
                             "四G"}) {
      CAPTURE(text);
      const bool fits = std::string(text) == "8191.9999P";
      CHECK(parse_bytes(text).has_value() == fits);
    }
    CHECK_FALSE(parse_bytes(std::string("4\0G", 3)).has_value());
  }

  TEST_CASE("a size that is too large is a size") {
    for (const char* text : {"9223372036854775808", "8192P", "99999999999999999999 GiB", "4G"}) {
      CAPTURE(text);
      CHECK(is_size(text));
    }
    for (const char* text : {"", "4X", "-1", "1e30", "G", "4 "}) {
      CAPTURE(text);
      CHECK_FALSE(is_size(text));
    }
  }

  TEST_CASE("a zero before another digit is a leading zero") {
    for (const char* text : {"00", "010", "-07", "00.5", "01e3", "08", "01K"}) {
      CAPTURE(text);
      CHECK(has_leading_zeros(text));
    }
    for (const char* text : {"", "0", "-0", "0.5", "0x10", "10", "-", "-.5", "100"}) {
      CAPTURE(text);
      CHECK_FALSE(has_leading_zeros(text));
    }
  }

  TEST_CASE("a size that is written reads back the same") {
    CHECK(exact_bytes(0) == "0");
    CHECK(exact_bytes(1000) == "1000");
    CHECK(exact_bytes(16LL << 30) == "16GiB");
    CHECK(exact_bytes(1536LL << 20) == "1536MiB");
    CHECK(exact_bytes(1LL << 60) == "1024PiB");
    for (int shift = 0; shift < 63; ++shift) {
      for (const std::int64_t change : {-1, 0, 1}) {
        const std::int64_t bytes = (std::int64_t{1} << shift) + change;
        CAPTURE(bytes);
        CHECK(parse_bytes(exact_bytes(bytes)) == bytes);
      }
    }
    CHECK(parse_bytes(exact_bytes(kMost)) == kMost);
  }

  TEST_CASE("a time is a number of seconds, or numbers with units") {
    struct Case {
      const char* text;
      double seconds;
    };
    constexpr Case kCases[] = {
        {"0", 0},       {"90", 90},       {"1.5", 1.5},     {"1e2", 100},     {"90s", 90},
        {"5m", 300},    {"1h30m", 5400},  {"1h 30m", 5400}, {"2d", 172800},   {"250ms", 0.25},
        {"1ms", 0.001}, {"1s1ms", 1.001}, {"0.5h", 1800},   {"1m1.5s", 61.5}, {"1d2h3m4s", 93784},
        {"90S", 90},    {"90 s", 90},     {"1H30M", 5400},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.text);
      CHECK(parse_seconds(c.text) == c.seconds);
    }
  }

  TEST_CASE("what is no time is none") {
    for (const char* text : {"",         " ",     "-1",    "-1s",  "-0",    "nan",  "inf",
                             "infinity", "s",     "1x",    "1m2",  "30m1h", "1h1h", "1.5h30m",
                             "1h-30m",   "1e999", "1..5s", "0x1s", "1 min", "1s ",  " 1s"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_seconds(text).has_value());
    }
    CHECK_FALSE(parse_seconds(std::string(400, '9') + "s").has_value());
  }

  TEST_CASE("a time that is written reads back the same") {
    CHECK(exact_seconds(0) == "0s");
    CHECK(exact_seconds(120) == "2m");
    CHECK(exact_seconds(5400) == "1h30m");
    CHECK(exact_seconds(86400) == "1d");
    CHECK(exact_seconds(0.001) == "1ms");
    CHECK(exact_seconds(0.25) == "250ms");
    CHECK(exact_seconds(1.5) == "1.5s");
    for (const double seconds : {1e-9, 0.0001, 0.003, 0.1, 0.7, 1.0 / 3, 59.0, 61.0, 3599.0, 3661.5,
                                 93784.0, 1e9, 1e15, 1e300}) {
      CAPTURE(seconds);
      CHECK(parse_seconds(exact_seconds(seconds)) == seconds);
    }
    for (int number = 0; number < 100'000; number += 37) {
      CHECK(parse_seconds(exact_seconds(number)) == number);
      CHECK(parse_seconds(exact_seconds(number / 1000.0)) == number / 1000.0);
    }
  }

  TEST_CASE("a size for a reader has three figures") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(999) == "999 B");
    CHECK(format_bytes(1000) == "1.00 kB");
    CHECK(format_bytes(917'400) == "917 kB");
    CHECK(format_bytes(999'499) == "999 kB");
    CHECK(format_bytes(999'500) == "1.00 MB");
    CHECK(format_bytes(16'380'000'000) == "16.4 GB");
    CHECK(format_bytes(kMost) == "9223 PB");
  }
}

}  // namespace
}  // namespace caption
