#include "backend/profile.h"

#include <algorithm>

namespace caption {

void Profile::add(const ProfileKey& key, std::chrono::nanoseconds time) {
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& candidate) { return candidate.key == key; });
  if (entry == entries_.end()) entry = entries_.insert(entry, {.key = key});
  ++entry->calls;
  entry->time += time;
}

double Profile::total_seconds() const {
  double sum = 0;
  for (const Entry& entry : entries_) sum += entry.seconds();
  return sum;
}

}  // namespace caption
