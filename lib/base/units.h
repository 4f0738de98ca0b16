// base/units.h: sizes and times as people write them, and back.
//
// A size is a number and a unit, with or without a space, in upper or lower case:
//   4GiB, 4G (the same)  powers of 1024: K, M, G, T, P, with "iB" or without
//   4GB                  powers of 1000: kB, MB, GB, TB, PB
//   4096, 4096B          bytes
// A time is a number of seconds, or numbers with units from the longest to the shortest:
//   90, 90s, 250ms, 5m, 1h30m, 2d
// A fraction ("1.5G", "0.5h") is taken of a size, and of the last number of a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caption {

// In bytes, rounded down to a whole one. std::nullopt for what is no size: an empty text, a sign,
// an unknown unit, or more than 2^63 - 1 bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);
// In seconds, finite. std::nullopt for what is no time: an empty text, a negative number, an
// unknown unit, units out of order.
std::optional<double> parse_seconds(std::string_view text);

// The same number again: parse_bytes(exact_bytes(n)) == n for n >= 0. The largest power of 1024
// that divides it: "16GiB", "1536MiB", "1000", "0".
std::string exact_bytes(std::int64_t bytes);
// parse_seconds(exact_seconds(s)) == s for finite s >= 0: "2m", "1h30m", "1.5s", "250ms", "0s".
std::string exact_seconds(double seconds);

// A size for a reader: three significant figures in powers of 1000, as rates have them: "4.61 GB",
// "917 kB", "12 B".
std::string format_bytes(std::int64_t bytes);

// What to write where a size or a time is expected: "a size such as 4GiB, 800M or 4096 (bytes)".
inline constexpr std::string_view kSizeExample = "a size such as 4GiB, 800M or 4096 (bytes)";
inline constexpr std::string_view kTimeExample = "a time such as 90s, 5m, 1h30m or 90 (seconds)";

}  // namespace caption
