#include "base/digest_cache.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMinAgeNs = 2'000'000'000;  // the resolution of FAT's write times

fs::path file_name(const FileStamp& stamp) {
  Sha256Hasher hasher;
  hasher.update_string("caption-cli digest 1");
  hasher.update_value(stamp.device);
  hasher.update_value(stamp.inode);
  hasher.update_value(stamp.size_bytes);
  hasher.update_value(stamp.modified_ns);
  hasher.update_value(stamp.changed_ns);
  return hasher.digest().hex();
}

// True when the file changed less than kMinAgeNs ago; a time in the future also counts as young.
bool is_young(const FileStamp& stamp) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return now_ns - std::max(stamp.modified_ns, stamp.changed_ns) < kMinAgeNs;
}

void require_unchanged(const OpenFile& file) {
  if (file.stamp_now() == file.stamp()) return;
  throw Error(ErrorCode::kBadModel,
              file.path().string() +
                  ": changed while it is in use; run again with files that nobody writes");
}

}  // namespace

Sha256 DigestCache::digest_of(const OpenFile& file) const {
  require_unchanged(file);
  if (const std::optional<Sha256> kept = find(file.stamp())) return *kept;
  const bool was_young = is_young(file.stamp());
  const Sha256 digest = file.sha256(cancelled_);
  require_unchanged(file);
  if (!was_young) keep(file.stamp(), digest);
  return digest;
}

std::optional<Sha256> DigestCache::find(const FileStamp& stamp) const {
  if (folder_.empty()) return std::nullopt;
  try {
    std::string text = read_text_file(folder_ / file_name(stamp), 256);
    if (text.ends_with('\n')) text.pop_back();
    return parse_sha256(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void DigestCache::keep(const FileStamp& stamp, const Sha256& digest) const {
  if (folder_.empty() || keeping_ == Keeping::kNo) return;
  static std::atomic<unsigned> num_kept = 0;  // gives each thread another temporary file
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::path path = folder_ / file_name(stamp);
  fs::path temporary = path;
  temporary += "." + std::to_string(::getpid()) + "." + std::to_string(num_kept++) + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << digest.hex() << '\n';
  out.close();
  if (out) fs::rename(temporary, path, error);
  if (!out || error) fs::remove(temporary, error);
}

}  // namespace caption
