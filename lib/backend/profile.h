// backend/profile.h: a stream's run time by operation.
//
//   Profile profile;
//   stream.set_profile(&profile);   // every kernel from here on is timed
//
// The contract function of a kernel opens a ProfileScope (backend/profile_scope.h) while it runs;
// code between kernels may also open one ("sampling"). Without a profile a scope costs one
// comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/event.h"

namespace caption {

// The key by which times are summed: the operation and, for dense layers, the matrix [rows,
// columns], which distinguishes the layers of a model.
struct ProfileKey {
  std::string_view operation;  // a string literal
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  bool operator==(const ProfileKey&) const = default;
};

// Used by the thread of its stream only. Allocates when a key is first seen. A GPU's times are read
// when they are asked for, so that timing does not make the host wait for each kernel.
class Profile {
 public:
  struct Entry {
    ProfileKey key;
    std::int64_t calls = 0;
    std::chrono::nanoseconds time{0};

    double seconds() const { return std::chrono::duration<double>(time).count(); }
  };

  // Adds the time between two events of a stream; waits for them when the times are read, or when
  // many are not read yet.
  void add(const ProfileKey& key, const Event& begin, const Event& end);
  void add(const ProfileKey& key, std::chrono::nanoseconds time);
  void clear();
  // Ordered by first occurrence. Throws Error(kUnavailable) when a GPU fails.
  const std::vector<Entry>& entries() const;
  double total_seconds() const;

 private:
  struct Unread {
    ProfileKey key;
    Event begin;
    Event end;
  };

  void read_times() const;

  mutable std::vector<Entry> entries_;
  mutable std::vector<Unread> unread_;
};

}  // namespace caption
