#include "store/blob_store.h"

#include <algorithm>
#include <condition_variable>
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
#include "base/log.h"
#include "store/internal/blob.h"
#include "store/internal/blob_files.h"

namespace caption::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxQueuedBytes = 64u << 20;

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

  State(fs::path root, std::string kind, std::int64_t max_bytes)
      : files(std::move(root), std::move(kind), max_bytes) {}

  void add(const Hash128& key, std::int64_t size_bytes);
  void forget(const Hash128& key);
  void evict(std::int64_t size_bytes);
  std::optional<std::vector<std::byte>> read(const Hash128& key,
                                             std::optional<std::size_t> wanted_bytes);
  bool write_file(const Pending& blob);
  void run_writer();
  bool write_first_of_queue(std::unique_lock<std::mutex>& lock);
  void warn(std::string_view trouble, const std::string& message);
  void warn_unwritten(const Hash128& key, std::string_view reason);

  BlobFiles files;

  // Guards the members below, except writer.
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<Hash128, Entry> entries;
  std::list<Hash128> uses;    // least recently used first
  std::deque<Pending> queue;  // the first is being written
  std::size_t queued_bytes = 0;
  bool is_closing = false;
  std::set<std::string, std::less<>> warned;
  BlobStoreStats stats;
  std::thread writer;
};

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
  while (!uses.empty() && stats.bytes + size_bytes > files.max_bytes()) {
    const Hash128 key = uses.front();
    files.remove(key);
    forget(key);
    ++stats.evicted;
  }
}

void BlobStore::State::warn(std::string_view trouble, const std::string& message) {
  if (!warned.insert(std::string(trouble)).second) return;
  log_warning("cache", message + "; further ones are not reported");
}

void BlobStore::State::warn_unwritten(const Hash128& key, std::string_view reason) {
  warn("unwritten", files.path_of(key).string() + ": cannot be written (" + std::string(reason) +
                        ") and is not kept");
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
  BlobFault fault;
  std::optional<std::vector<std::byte>> payload = files.read(key, wanted_bytes, fault);
  const std::lock_guard lock(mutex);
  if (payload.has_value()) {
    ++stats.hits;
    add(key, static_cast<std::int64_t>(payload->size() + kBlobHeaderBytes));
    return payload;
  }
  ++stats.misses;
  if (fault.text.empty()) {
    // The file may have been written since it was looked for, here or by another process.
    const std::optional<std::int64_t> size_bytes = files.find_size(key);
    if (size_bytes.has_value()) {
      add(key, *size_bytes);
    } else {
      forget(key);
    }
    return std::nullopt;
  }
  if (!fault.is_damage) {
    warn("unread", files.path_of(key).string() + ": cannot be read (" + fault.text +
                       "); its content is computed again");
    return std::nullopt;
  }
  forget(key);
  ++stats.damaged;
  warn("damaged", files.path_of(key).string() + ": " + fault.text +
                      "; it is removed and its content computed again");
  files.remove(key);
  return std::nullopt;
}

bool BlobStore::State::write_file(const Pending& blob) {
  const std::string reason = files.write(blob.key, blob.payload);
  if (reason.empty()) return true;
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

BlobStore::BlobStore(const fs::path& folder, std::string kind, std::int64_t max_bytes) {
  CAPTION_CHECK(!kind.empty() && kind.size() <= kMaxKindBytes, "disk store: a kind without a name");
  const fs::path root = folder / kind;
  state_ = std::make_unique<State>(root, std::move(kind), max_bytes);
  std::error_code error;
  fs::create_directories(root, error);
  if (error || !fs::is_directory(root, error)) {
    const bool lacks_memory =
        error_code_of_errno(error.value()) == ErrorCode::kOutOfMemory;  // also lack of descriptors
    throw Error(lacks_memory ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                folder.string() + ": cannot be used as a cache folder (" + error.message() +
                    "); name another with --kv-cache-dir");
  }
  {
    const std::lock_guard lock(state_->mutex);
    for (const BlobFile& file : state_->files.list()) state_->add(file.key, file.size_bytes);
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
  if (static_cast<std::int64_t>(payload.size() + kBlobHeaderBytes) > state_->files.max_bytes())
    return;
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
