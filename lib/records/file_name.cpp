#include "records/file_name.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/utf8.h"

namespace caption::records {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kEscapeBytes = 4;  // \xNN
constexpr std::size_t kMaxCharacterBytes = 4;

void append_escape(std::string& out, unsigned char byte) {
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 0xF];
}

// Decodes the escape at the beginning of `text`; std::nullopt when there is none.
std::optional<char> read_escape(std::string_view text) {
  if (text.size() < kEscapeBytes || !text.starts_with("\\x")) return std::nullopt;
  const std::size_t high = kDigits.find(text[2]);
  const std::size_t low = kDigits.find(text[3]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// Bytes of the valid character at the beginning of `text`; 0 when there is none.
std::size_t character_bytes(std::string_view text) {
  for (std::size_t length = 1; length <= kMaxCharacterBytes && length <= text.size(); ++length) {
    if (is_valid_utf8(text.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string escape_file_name(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string_view rest = bytes.substr(at);
    const auto byte = static_cast<unsigned char>(rest[0]);
    const std::size_t length = character_bytes(rest);
    const bool is_control = byte < 0x20 || byte == 0x7F;
    if (length == 0 || is_control || read_escape(rest).has_value()) {
      append_escape(out, byte);
      ++at;
    } else {
      out += rest.substr(0, length);
      at += length;
    }
  }
  return out;
}

std::string unescape_file_name(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<char> byte = read_escape(text.substr(at));
    out += byte.value_or(text[at]);
    at += byte.has_value() ? kEscapeBytes : 1;
  }
  return out;
}

std::string absolute_name(std::string_view path) {
  std::string out;
  bool has_parent_part = false;
  if (!path.starts_with('/')) {
    std::error_code error;
    out = std::filesystem::current_path(error).string();
    if (out == "/") out.clear();
  }
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") out.append("/").append(part);
    has_parent_part = has_parent_part || part == "..";
    begin = end + 1;
  }
  if (!has_parent_part) return out;
  // Only the file system can resolve "..", because the part before it may be a symbolic link.
  const std::filesystem::path whole(out);
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(whole.parent_path(), error);
  return error ? out : (folder / whole.filename()).string();
}

}  // namespace caption::records
