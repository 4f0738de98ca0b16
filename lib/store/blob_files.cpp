#include "store/internal/blob_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace caption::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";
// A temporary file older than this was left by a process that was killed.
constexpr auto kMaxTemporaryAge = std::chrono::hours(1);

std::optional<Hash128> parse_key(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  std::uint64_t halves[2] = {};
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
    halves[i / 16] = halves[i / 16] << 4 | digit;
  }
  return Hash128{halves[0], halves[1]};
}

// Opens a folder, but not a link to one, so that no path below it leads out of the store.
FileDescriptor open_folder(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Returns 0, an errno, or kCutShort if the file ends before `bytes` is filled.
constexpr int kCutShort = -1;
int read_all(int file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return kCutShort;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return 0;
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// Returns whether open() failed for lack of resources, of rights or for another reason outside the
// file: one that this user may not read may be whole, and another user's. ELOOP means that a link
// is in the place of one of our files.
bool is_refusal(int error_number) {
  return error_number == EACCES || error_number == EPERM ||
         is_of_machine(error_code_of_errno(error_number));
}

// Throws unless the folder was listed completely: a file that is not listed would be neither found
// nor evicted. Ignores a folder that another process removed meanwhile or that this user may not
// read.
void require_listed(const fs::path& folder, const std::error_code& error) {
  if (!error || error == std::errc::no_such_file_or_directory ||
      error == std::errc::permission_denied) {
    return;
  }
  throw Error(error_code_of_errno(error.value()),
              folder.string() + ": cannot list the cache folder: " + describe_errno(error.value()));
}

}  // namespace

std::vector<BlobFile> BlobFiles::list() const {
  std::vector<BlobFile> found;
  std::error_code error;
  for (fs::directory_iterator shard(root_, error), end; !error && shard != end;
       shard.increment(error)) {
    std::error_code inner;
    if (shard->is_symlink(inner) || !shard->is_directory(inner)) continue;
    for (fs::directory_iterator file(shard->path(), inner); !inner && file != end;
         file.increment(inner)) {
      list_file(*file, found);
    }
    require_listed(shard->path(), inner);
  }
  require_listed(root_, error);
  std::sort(found.begin(), found.end(), [](const BlobFile& a, const BlobFile& b) {
    return a.used_at != b.used_at ? a.used_at < b.used_at : a.key < b.key;
  });
  return found;
}

void BlobFiles::list_file(const fs::directory_entry& file, std::vector<BlobFile>& found) {
  std::error_code error;
  if (file.is_symlink(error) || !file.is_regular_file(error)) return;
  const std::string name = file.path().filename().string();
  const auto used_at = file.last_write_time(error);
  const auto size_bytes = static_cast<std::int64_t>(file.file_size(error));
  if (error) return;
  const std::string_view stem =
      std::string_view(name).substr(0, std::min<std::size_t>(32, name.size()));
  const std::optional<Hash128> key = parse_key(stem);
  if (!key.has_value()) return;  // not a file of ours: left alone
  if (name == std::string(stem) + std::string(kBlobSuffix)) {
    found.push_back({used_at, *key, size_bytes});
  } else if (name.ends_with(kTemporarySuffix) &&
             fs::file_time_type::clock::now() - used_at > kMaxTemporaryAge) {
    fs::remove(file.path(), error);
  }
}

// The file may be absent: another process may have removed it.
void BlobFiles::remove(const Hash128& key) const {
  const FileDescriptor folder = open_folder(folder_of(key));
  if (folder.get() >= 0) ::unlinkat(folder.get(), file_name_of(key).c_str(), 0);
}

std::optional<std::vector<std::byte>> BlobFiles::read(const Hash128& key,
                                                      std::optional<std::size_t> wanted_bytes,
                                                      BlobFault& fault) const {
  const FileDescriptor folder = open_folder(folder_of(key));
  if (folder.get() < 0) {
    if (is_refusal(errno)) fault = {.text = describe_errno(errno), .is_damage = false};
    return std::nullopt;
  }
  const FileDescriptor file(::openat(folder.get(), file_name_of(key).c_str(),
                                     O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno != ENOENT) fault = {.text = describe_errno(errno), .is_damage = !is_refusal(errno)};
    return std::nullopt;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    fault.text = "is no regular file";
    return std::nullopt;
  }
  // A larger blob would not be put, so it is not read either, whatever its header claims.
  if (status.st_size > max_bytes_) return std::nullopt;
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  std::array<std::byte, kBlobHeaderBytes> header{};
  const int header_status =
      file_bytes >= kBlobHeaderBytes ? read_all(file.get(), header) : kCutShort;
  if (header_status > 0) {
    fault = {.text = describe_errno(header_status), .is_damage = false};
    return std::nullopt;
  }
  fault.text =
      header_status == 0 ? describe_header_fault(header, name_of(key), file_bytes) : "is cut short";
  if (!fault.text.empty()) return std::nullopt;
  const auto payload_bytes = static_cast<std::size_t>(file_bytes - kBlobHeaderBytes);
  if (wanted_bytes && payload_bytes != *wanted_bytes) {
    fault.text = "holds " + std::to_string(payload_bytes) + " bytes; " +
                 std::to_string(*wanted_bytes) + " were expected";
    return std::nullopt;
  }
  std::vector<std::byte> payload(payload_bytes);
  const int status_of_payload = read_all(file.get(), payload);
  if (status_of_payload > 0) {
    fault = {.text = describe_errno(status_of_payload), .is_damage = false};
    return std::nullopt;
  }
  if (status_of_payload != 0 || !payload_matches(header, payload)) {
    fault.text = "is damaged: its checksum does not match";
    return std::nullopt;
  }
  // Marks the file as used now. If that is not permitted, the order of eviction becomes inexact.
  ::futimens(file.get(), nullptr);
  return payload;
}

std::optional<std::int64_t> BlobFiles::find_size(const Hash128& key) const {
  const FileDescriptor folder = open_folder(folder_of(key));
  struct stat status {};
  const bool is_there =
      folder.get() >= 0 &&
      ::fstatat(folder.get(), file_name_of(key).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(status.st_mode) && status.st_size <= max_bytes_;
  return is_there ? std::optional<std::int64_t>(status.st_size) : std::nullopt;
}

std::string BlobFiles::write(const Hash128& key, std::span<const std::byte> payload) {
  const std::string name = file_name_of(key);
  const std::string temporary = key.hex() + "." + std::to_string(::getpid()) + "." +
                                std::to_string(num_temporary_++) + std::string(kTemporarySuffix);
  ::mkdir(folder_of(key).c_str(), 0755);  // fails harmlessly if it exists
  const FileDescriptor folder = open_folder(folder_of(key));
  const FileDescriptor file(
      folder.get() < 0 ? -1
                       : ::openat(folder.get(), temporary.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const auto header = make_blob_header(name_of(key), payload);
  const bool is_written =
      file.get() >= 0 && write_all(file.get(), header) && write_all(file.get(), payload) &&
      ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0;
  if (is_written) return {};
  const std::string reason = std::strerror(errno);
  if (file.get() >= 0) ::unlinkat(folder.get(), temporary.c_str(), 0);
  return reason;
}

}  // namespace caption::store
