#include "video/internal/playlist.h"

#include <array>
#include <span>
#include <string>

#include "base/utf8.h"

namespace caption::video {
namespace {

constexpr std::size_t kExaminedBytes = 4096;

struct Kind {
  std::string_view name;
  std::string_view begin;   // how the file begins
  std::string_view holds;   // a part of the examined bytes; empty: any
  std::string_view ending;  // how the names of such files end
};

// Sources: RFC 8216 (HLS), FFmpeg's formats manual (concat), RFC 8866 (SDP), ISO/IEC 23009-1
// (DASH).
constexpr std::array kKinds = {
    Kind{"an M3U playlist", "#EXTM3U", "", ".m3u8"},
    Kind{"an M3U playlist", "#EXTM3U", "", ".m3u"},
    Kind{"a list of FFmpeg's concat demuxer", "ffconcat version", "", ".ffconcat"},
    Kind{"a PLS playlist", "[playlist]", "", ".pls"},
    Kind{"a description of a network stream (SDP)", "v=0", "\nm=", ".sdp"},
    Kind{"a DASH manifest", "<", "<MPD", ".mpd"},
    Kind{"an XSPF playlist", "<", "<playlist", ".xspf"},
    Kind{"an ASX playlist", "<", "<asx", ".asx"},
};

std::string read_begin(const OpenFile& file) {
  std::string bytes(kExaminedBytes, '\0');
  bytes.resize(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  return std::string(without_byte_order_mark(bytes));
}

}  // namespace

std::string_view find_playlist_kind(const OpenFile& file) {
  const std::string begin = read_begin(file);
  for (const Kind& kind : kKinds) {
    if (begin.starts_with(kind.begin) && begin.find(kind.holds) != std::string::npos) {
      return kind.name;
    }
  }
  if (begin.find('\0') != std::string::npos) return {};
  const std::string name = file.path().string();
  for (const Kind& kind : kKinds) {
    if (name.ends_with(kind.ending)) return kind.name;
  }
  return {};
}

}  // namespace caption::video
