#include "pipeline/input_list.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kBlockBytes = 1u << 20;
constexpr std::size_t kFirstSlots = 1u << 6;

std::uint32_t hash_of(std::string_view spelling) {
  return static_cast<std::uint32_t>(hash_string(spelling).low);
}

bool has_parent_part(std::string_view path) {
  return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
         path.find("/../") != std::string_view::npos;
}

}  // namespace

InputList::InputList() : slots_(kFirstSlots) {
  std::error_code error;
  // If the working folder no longer exists, its name is empty: relative paths are then compared
  // only with each other.
  working_folder_ = std::filesystem::current_path(error).string();
}

InputList::AddResult InputList::add(std::string_view path, Origin origin, AdapterIndex adapter) {
  CAPTION_CHECK(adapter < static_cast<AdapterIndex>(kMaxAdapters), "too many adapters");
  CAPTION_CHECK(path.find('\0') == std::string_view::npos, "a path with a NUL");
  normalise(path, spelling_);
  const std::uint32_t hash = hash_of(spelling_);
  if (const Slot& known = find_slot(spelling_, hash); known.entry != 0) {
    return this->adapter(known.entry - 1) == adapter ? AddResult::kDuplicate
                                                     : AddResult::kOtherAdapter;
  }
  if (entries_.size() + 1 >= std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kUsage, "more than 4 billion paths in one run; split the list");
  }
  if (4 * (entries_.size() + 1) > 3 * slots_.size()) grow_table();
  Slot& slot = find_slot(spelling_, hash);
  append(path, origin, adapter);
  slot = {.hash = hash, .entry = static_cast<std::uint32_t>(entries_.size())};
  return AddResult::kAdded;
}

std::size_t InputList::size_bytes() const {
  return sizeof(*this) + block_bytes_ + blocks_.capacity() * sizeof(blocks_[0]) +
         entries_.capacity() * sizeof(entries_[0]) + slots_.capacity() * sizeof(Slot) +
         working_folder_.capacity() + spelling_.capacity() + other_spelling_.capacity();
}

char* InputList::allocate(std::size_t size_bytes) {
  if (size_bytes > free_bytes_) {
    const std::size_t block_bytes = std::max(size_bytes, kBlockBytes);
    // Not zeroed: memory is committed only when it is written.
    blocks_.emplace_back(new char[block_bytes]);
    block_bytes_ += block_bytes;
    free_ = blocks_.back().get();
    free_bytes_ = block_bytes;
  }
  free_bytes_ -= size_bytes;
  return std::exchange(free_, free_ + size_bytes);
}

void InputList::append(std::string_view path, Origin origin, AdapterIndex adapter) {
  char* const entry = allocate(kPrefixBytes + path.size() + 1);
  entry[0] = static_cast<char>(static_cast<unsigned char>(adapter + 1));
  entry[1] = static_cast<char>(origin);
  std::copy(path.begin(), path.end(), entry + kPrefixBytes);
  entry[kPrefixBytes + path.size()] = '\0';
  entries_.push_back(entry);
  has_adapters_ = has_adapters_ || adapter != kNoAdapter;
}

void InputList::grow_table() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.entry == 0) continue;
    std::size_t at = slot.hash & mask;
    while (slots_[at].entry != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

InputList::Slot& InputList::find_slot(std::string_view spelling, std::uint32_t hash) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.entry == 0) return slot;
    if (slot.hash != hash) continue;
    normalise(path(slot.entry - 1), other_spelling_);
    if (other_spelling_ == spelling) return slot;
  }
}

void InputList::normalise(std::string_view path, std::string& out) const {
  if (has_parent_part(
          path)) {  // only the file system can resolve it: the part before may be a link
    out = records::absolute_name(path);
    return;
  }
  out.clear();
  if (!path.starts_with('/')) out = working_folder_;
  while (out.ends_with('/')) out.pop_back();  // so that the root "/" becomes empty
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (!component.empty() && component != ".") {
      out += '/';
      out += component;
    }
    at = end + 1;
  }
  // A trailing slash is kept, because such a path can only name a folder.
  if (path.ends_with('/') || path.ends_with("/.") || path == ".") out += '/';
}

}  // namespace caption::pipeline
