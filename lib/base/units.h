// base/units.h: parsing and formatting of sizes and times as people write them.
//
// A size is a number and a unit, with or without a space, in upper or lower case:
//   4GiB, 4G (the same)  powers of 1024: K, M, G, T, P, with "iB" or without
//   4GB                  powers of 1000: kB, MB, GB, TB, PB
//   4096, 4096B          bytes
// A time is a number of seconds, or numbers with units from the longest to the shortest:
//   90, 90s, 250ms, 5m, 1h30m, 2d
// A fraction ("1.5G", "0.5h") is allowed in a size, and in the last number of a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caption {

// A size in bytes, rounded down. std::nullopt for a text that is not a size: an empty text, a sign,
// an unknown unit, or more than 2^63 - 1 bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);
// Whether a text has the form of a size, of however many bytes.
bool is_size(std::string_view text);
// A time in seconds, finite. std::nullopt for a text that is not a time: an empty text, a negative
// number, an unknown unit, units out of order.
std::optional<double> parse_seconds(std::string_view text);

// Whether a zero stands before the first other digit of a number's whole part, as in 010 and -007,
// which some languages and libraries read as octal.
bool has_leading_zeros(std::string_view number);

// Exact inverse of parse_bytes(): parse_bytes(exact_bytes(n)) == n for n >= 0. Uses the largest
// power of 1024 that divides n: "16GiB", "1536MiB", "1000", "0".
std::string exact_bytes(std::int64_t bytes);
// Exact inverse of parse_seconds(): parse_seconds(exact_seconds(s)) == s for finite s >= 0. "2m",
// "1h30m", "1.5s", "250ms", "0s".
std::string exact_seconds(double seconds);

// A size for display: three significant figures and a power of 1000: "4.61 GB", "917 kB", "12 B".
std::string format_bytes(std::int64_t bytes);

// Examples for error messages about a size or a time.
inline constexpr std::string_view kSizeExample = "a size such as 4GiB, 800M or 4096 (bytes)";
inline constexpr std::string_view kTimeExample = "a time such as 90s, 5m, 1h30m or 90 (seconds)";

}  // namespace caption
