#include "store/blob_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "store/internal/blob.h"

namespace caption::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxQueuedBytes = 64u << 20;
constexpr std::string_view kSuffix = ".bin";
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

// Returns whether open() failed for lack of resources or another reason outside the file. ELOOP
// means that a link is in the place of one of our files.
bool is_refusal(int error_number) {
  return error_number != ELOOP && is_of_machine(error_code_of_errno(error_number));
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

struct BlobStore::State {
  struct Entry {
    std::int64_t size_bytes = 0;
    std::list<Hash128>::iterator use;
  };
  struct Pending {
    Hash128 key;
    std::vector<std::byte> payload;
  };
  // Why a blob could not be read. A damaged file is removed; one that the system failed to read may
  // be readable the next time. An empty text means there is no such file, or it exceeds max_bytes.
  struct Fault {
    std::string text;
    bool is_damage = true;
  };
  struct Listed {
    fs::file_time_type used_at;
    Hash128 key;
    std::int64_t size_bytes;
  };

  fs::path folder_of(const Hash128& key) const { return root / key.hex().substr(0, 2); }
  static std::string file_name_of(const Hash128& key) { return key.hex() + std::string(kSuffix); }
  fs::path path_of(const Hash128& key) const { return folder_of(key) / file_name_of(key); }
  BlobName name_of(const Hash128& key) const { return {.kind = kind, .key = key}; }

  void list_files();
  void list_file(const fs::directory_entry& file, std::vector<Listed>& found) const;
  void add(const Hash128& key, std::int64_t size_bytes);
  void forget(const Hash128& key);
  void evict(std::int64_t size_bytes);
  std::optional<std::vector<std::byte>> read(const Hash128& key,
                                             std::optional<std::size_t> wanted_bytes);
  std::optional<std::vector<std::byte>> read_file(const Hash128& key,
                                                  std::optional<std::size_t> wanted_bytes,
                                                  Fault& fault) const;
  void remove_file(const Hash128& key) const;
  bool write_file(const Pending& blob);
  void run_writer();
  bool write_first_of_queue(std::unique_lock<std::mutex>& lock);
  void warn(std::string_view trouble, const std::string& message);
  void warn_unwritten(const Hash128& key, std::string_view reason);

  fs::path root;
  std::string kind;
  std::int64_t max_bytes = 0;

  // Guards the members below, except num_temporary (used by the writer thread only) and writer.
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<Hash128, Entry> entries;
  std::list<Hash128> uses;    // least recently used first
  std::deque<Pending> queue;  // the first is being written
  std::size_t queued_bytes = 0;
  bool is_closing = false;
  std::set<std::string, std::less<>> warned;
  std::uint64_t num_temporary = 0;
  BlobStoreStats stats;
  std::thread writer;
};

void BlobStore::State::list_files() {
  std::vector<Listed> found;
  std::error_code error;
  for (fs::directory_iterator shard(root, error), end; !error && shard != end;
       shard.increment(error)) {
    std::error_code inner;
    if (shard->is_symlink(inner) || !shard->is_directory(inner)) continue;
    for (fs::directory_iterator file(shard->path(), inner); !inner && file != end;
         file.increment(inner)) {
      list_file(*file, found);
    }
    require_listed(shard->path(), inner);
  }
  require_listed(root, error);
  std::sort(found.begin(), found.end(), [](const Listed& a, const Listed& b) {
    return a.used_at != b.used_at ? a.used_at < b.used_at : a.key < b.key;
  });
  for (const Listed& file : found) add(file.key, file.size_bytes);
}

void BlobStore::State::list_file(const fs::directory_entry& file,
                                 std::vector<Listed>& found) const {
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
  if (name == std::string(stem) + std::string(kSuffix)) {
    found.push_back({used_at, *key, size_bytes});
  } else if (name.ends_with(kTemporarySuffix) &&
             fs::file_time_type::clock::now() - used_at > kMaxTemporaryAge) {
    fs::remove(file.path(), error);
  }
}

// Has no effect if there is not enough memory for the entry.
void BlobStore::State::add(const Hash128& key, std::int64_t size_bytes) {
  std::list<Hash128> use{key};
  Entry& entry = entries[key];
  if (entry.size_bytes > 0) {
    stats.bytes -= entry.size_bytes;
    uses.erase(entry.use);
  }
  uses.splice(uses.end(), use);
  entry = {size_bytes, std::prev(uses.end())};
  stats.bytes += size_bytes;
}

void BlobStore::State::forget(const Hash128& key) {
  const auto found = entries.find(key);
  if (found == entries.end()) return;
  stats.bytes -= found->second.size_bytes;
  uses.erase(found->second.use);
  entries.erase(found);
}

void BlobStore::State::evict(std::int64_t size_bytes) {
  while (!uses.empty() && stats.bytes + size_bytes > max_bytes) {
    const Hash128 key = uses.front();
    remove_file(key);
    forget(key);
    ++stats.evicted;
  }
}

void BlobStore::State::warn(std::string_view trouble, const std::string& message) {
  if (!warned.insert(std::string(trouble)).second) return;
  log_warning("cache", message + "; further ones are not reported");
}

void BlobStore::State::warn_unwritten(const Hash128& key, std::string_view reason) {
  warn("unwritten",
       path_of(key).string() + ": cannot be written (" + std::string(reason) + ") and is not kept");
}

// The file may be absent: another process may have removed it.
void BlobStore::State::remove_file(const Hash128& key) const {
  const FileDescriptor folder = open_folder(folder_of(key));
  if (folder.get() >= 0) ::unlinkat(folder.get(), file_name_of(key).c_str(), 0);
}

// Returns the payload, or nothing and sets `fault` to the reason.
std::optional<std::vector<std::byte>> BlobStore::State::read_file(
    const Hash128& key, std::optional<std::size_t> wanted_bytes, Fault& fault) const {
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
  if (status.st_size > max_bytes) return std::nullopt;
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

std::optional<std::vector<std::byte>> BlobStore::State::read(
    const Hash128& key, std::optional<std::size_t> wanted_bytes) {
  {
    const std::lock_guard lock(mutex);
    for (const Pending& blob : queue) {
      if (blob.key != key || (wanted_bytes && blob.payload.size() != *wanted_bytes)) continue;
      ++stats.hits;
      return blob.payload;
    }
  }
  Fault fault;
  std::optional<std::vector<std::byte>> payload = read_file(key, wanted_bytes, fault);
  const std::lock_guard lock(mutex);
  if (payload.has_value()) {
    ++stats.hits;
    add(key, static_cast<std::int64_t>(payload->size() + kBlobHeaderBytes));
    return payload;
  }
  ++stats.misses;
  if (fault.is_damage) forget(key);
  if (fault.text.empty()) return std::nullopt;
  if (!fault.is_damage) {
    warn("unread", path_of(key).string() + ": cannot be read (" + fault.text +
                       "); its content is computed again");
    return std::nullopt;
  }
  ++stats.damaged;
  warn("damaged", path_of(key).string() + ": " + fault.text +
                      "; it is removed and its content computed again");
  remove_file(key);
  return std::nullopt;
}

bool BlobStore::State::write_file(const Pending& blob) {
  const std::string name = file_name_of(blob.key);
  const std::string temporary = blob.key.hex() + "." + std::to_string(::getpid()) + "." +
                                std::to_string(num_temporary++) + std::string(kTemporarySuffix);
  ::mkdir(folder_of(blob.key).c_str(), 0755);  // fails harmlessly if it exists
  const FileDescriptor folder = open_folder(folder_of(blob.key));
  const FileDescriptor file(
      folder.get() < 0 ? -1
                       : ::openat(folder.get(), temporary.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const auto header = make_blob_header(name_of(blob.key), blob.payload);
  const bool is_written =
      file.get() >= 0 && write_all(file.get(), header) && write_all(file.get(), blob.payload) &&
      ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0;
  if (is_written) return true;
  const std::string reason = std::strerror(errno);
  if (file.get() >= 0) ::unlinkat(folder.get(), temporary.c_str(), 0);
  const std::lock_guard lock(mutex);
  warn_unwritten(blob.key, reason);
  return false;
}

// Returns true when the blob is on disk. Called with the lock held, which is released during
// writing; the blob stays first in the queue.
bool BlobStore::State::write_first_of_queue(std::unique_lock<std::mutex>& lock) {
  const Pending& blob = queue.front();
  const auto size_bytes = static_cast<std::int64_t>(blob.payload.size() + kBlobHeaderBytes);
  evict(size_bytes);
  lock.unlock();
  const bool is_written = write_file(blob);
  lock.lock();
  if (is_written) add(blob.key, size_bytes);
  return is_written;
}

// A blob that fails does not end the writer: other threads wait for the queue to shrink.
void BlobStore::State::run_writer() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return is_closing || !queue.empty(); });
    if (queue.empty()) return;
    try {
      if (write_first_of_queue(lock)) ++stats.stored;
    } catch (const std::exception&) {
      if (!lock.owns_lock()) lock.lock();
      log_warning("cache", "a blob is not kept: not enough memory to write it");
    }
    queued_bytes -= queue.front().payload.size();
    queue.pop_front();
    changed.notify_all();
  }
}

BlobStore::BlobStore(const fs::path& folder, std::string kind, std::int64_t max_bytes)
    : state_(std::make_unique<State>()) {
  CAPTION_CHECK(!kind.empty() && kind.size() <= kMaxKindBytes, "disk store: a kind without a name");
  state_->kind = std::move(kind);
  state_->root = folder / state_->kind;
  state_->max_bytes = max_bytes;
  std::error_code error;
  fs::create_directories(state_->root, error);
  if (error || !fs::is_directory(state_->root, error)) {
    const bool lacks_memory =
        error_code_of_errno(error.value()) == ErrorCode::kOutOfMemory;  // also lack of descriptors
    throw Error(lacks_memory ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                folder.string() + ": cannot be used as a cache folder (" + error.message() +
                    "); name another with --kv-cache-dir");
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->list_files();
    state_->evict(0);
  }
  try {
    state_->writer = std::thread([this] { state_->run_writer(); });
  } catch (const std::system_error& refusal) {
    throw Error(ErrorCode::kOutOfMemory,
                folder.string() + ": cannot start the thread that writes the cache: " +
                    refusal.what() + "; lower --threads, or leave out --kv-cache-dir");
  }
}

BlobStore::~BlobStore() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closing = true;
    state_->changed.notify_all();
  }
  state_->writer.join();
}

bool BlobStore::contains(const Hash128& key) const {
  const std::lock_guard lock(state_->mutex);
  return state_->entries.contains(key) ||
         std::any_of(state_->queue.begin(), state_->queue.end(),
                     [&](const State::Pending& blob) { return blob.key == key; });
}

std::optional<std::vector<std::byte>> BlobStore::get(const Hash128& key) {
  return state_->read(key, std::nullopt);
}

bool BlobStore::get_into(const Hash128& key, std::span<std::byte> payload) {
  const std::optional<std::vector<std::byte>> found = state_->read(key, payload.size());
  if (!found.has_value()) return false;
  std::copy(found->begin(), found->end(), payload.begin());
  return true;
}

void BlobStore::put(const Hash128& key, std::span<const std::byte> payload) {
  if (static_cast<std::int64_t>(payload.size() + kBlobHeaderBytes) > state_->max_bytes) return;
  if (contains(key)) return;
  try {
    State::Pending blob{key, {payload.begin(), payload.end()}};
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] {
      return state_->queue.empty() || state_->queued_bytes + payload.size() <= kMaxQueuedBytes;
    });
    state_->queue.push_back(std::move(blob));
    state_->queued_bytes += payload.size();
    state_->changed.notify_all();
  } catch (const std::bad_alloc&) {
    log_warning("cache", "a blob is not kept: not enough memory to copy it");
  }
}

void BlobStore::flush() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->queue.empty(); });
}

BlobStoreStats BlobStore::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace caption::store
