#include "backend/profile.h"

#include <algorithm>

namespace caption {
namespace {

// Each holds two events of the device.
constexpr std::size_t kMostUnread = 4096;

void add_time(std::vector<Profile::Entry>& entries, const ProfileKey& key,
              std::chrono::nanoseconds time) {
  auto entry = std::find_if(entries.begin(), entries.end(),
                            [&](const Profile::Entry& candidate) { return candidate.key == key; });
  if (entry == entries.end()) entry = entries.insert(entry, {.key = key});
  ++entry->calls;
  entry->time += time;
}

}  // namespace

void Profile::add(const ProfileKey& key, const Event& begin, const Event& end) {
  unread_.push_back({.key = key, .begin = begin, .end = end});
  if (unread_.size() >= kMostUnread) read_times();
}

void Profile::add(const ProfileKey& key, std::chrono::nanoseconds time) {
  read_times();
  add_time(entries_, key, time);
}

void Profile::clear() {
  entries_.clear();
  unread_.clear();
}

const std::vector<Profile::Entry>& Profile::entries() const {
  read_times();
  return entries_;
}

double Profile::total_seconds() const {
  double sum = 0;
  for (const Entry& entry : entries()) sum += entry.seconds();
  return sum;
}

void Profile::read_times() const {
  for (const Unread& unread : unread_) {
    add_time(entries_, unread.key, unread.end.since(unread.begin));
  }
  unread_.clear();
}

}  // namespace caption
