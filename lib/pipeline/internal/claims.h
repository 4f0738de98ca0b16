// pipeline/internal/claims.h: which captions are being made, so that equal clips are captioned
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

// Thread-safe. Keys stand for a content and a prompt.
class Claims {
 public:
  // True: the caller makes this caption, and calls release() when its record is written. False:
  // somebody does, and will find `follower` when it is released.
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
