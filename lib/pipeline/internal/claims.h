// pipeline/internal/claims.h: captions in progress, so that clips with equal content are captioned
// once.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "pipeline/input_list.h"
#include "records/sink.h"

namespace caption::pipeline {

// A clip whose content is being captioned under another name.
struct Follower {
  records::ClipIdentity clip;
  std::string video;  // the path as given, escaped
  Origin origin = Origin::kNamed;
};

// Thread-safe. A key identifies a content, a prompt and an adapter.
class Claims {
 public:
  // Returns true when the caller must make this caption and call release() after its record is
  // written. Returns false when another clip has claimed the key; release() then returns
  // `follower`.
  bool take(const Hash128& key, const Follower& follower) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = followers_.try_emplace(key);
    if (!is_new) entry->second.push_back(follower);
    return is_new;
  }

  std::vector<Follower> release(const Hash128& key) {
    const std::lock_guard lock(mutex_);
    const auto entry = followers_.find(key);
    if (entry == followers_.end()) return {};
    std::vector<Follower> followers = std::move(entry->second);
    followers_.erase(entry);
    return followers;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Hash128, std::vector<Follower>> followers_;
};

}  // namespace caption::pipeline
