// backend/profile.h: a stream's run time by operation.
//
//   Profile profile;
//   stream.set_profile(&profile);   // every kernel from here on is timed
//
// The contract function of a kernel opens a ProfileScope while it runs; code between kernels may
// also open one ("sampling"). Without a profile a scope costs one comparison. Scopes of one stream
// do not nest.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace caption {

// The key by which times are summed: the operation and, for dense layers, the matrix [rows,
// columns], which distinguishes the layers of a model.
struct ProfileKey {
  std::string_view operation;  // a string literal
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  bool operator==(const ProfileKey&) const = default;
};

// Used by the thread of its stream only. Allocates when a key is first seen.
class Profile {
 public:
  struct Entry {
    ProfileKey key;
    std::int64_t calls = 0;
    std::chrono::nanoseconds time{0};

    double seconds() const { return std::chrono::duration<double>(time).count(); }
  };

  void add(const ProfileKey& key, std::chrono::nanoseconds time);
  void clear() { entries_.clear(); }
  // Ordered by first occurrence.
  const std::vector<Entry>& entries() const { return entries_; }
  double total_seconds() const;

 private:
  std::vector<Entry> entries_;
};

// Adds the time from construction to destruction to `profile`, unless that is null.
class ProfileScope {
 public:
  ProfileScope(Profile* profile, std::string_view operation)
      : profile_(profile), key_{.operation = operation} {
    if (profile_ != nullptr) start_ = Clock::now();
  }
  ~ProfileScope() {
    if (profile_ != nullptr) profile_->add(key_, Clock::now() - start_);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  void set_matrix(std::int64_t rows, std::int64_t columns) {
    key_.rows = rows;
    key_.columns = columns;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Profile* profile_;
  ProfileKey key_;
  Clock::time_point start_;
};

}  // namespace caption
