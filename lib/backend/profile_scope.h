// backend/profile_scope.h: times the work that a stream is given during a scope.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>

#include "backend/event.h"
#include "backend/profile.h"
#include "backend/stream.h"

namespace caption {

// Adds the time between two events of `stream`, at its construction and its destruction, to the
// stream's profile, unless that is null. Must not outlive the stream. Scopes of one stream do not
// nest. The constructor throws as Stream::record(); a time that cannot be added at the end of the
// scope is lost.
class ProfileScope {
 public:
  // `operation` is a string literal.
  ProfileScope(const Stream& stream, std::string_view operation)
      : stream_(stream), key_{.operation = operation} {
    if (stream.profile() != nullptr) begin_ = stream.record();
  }
  ~ProfileScope() {
    if (!begin_.has_value() || stream_.profile() == nullptr) return;
    try {
      stream_.profile()->add(key_, *begin_, stream_.record());
    } catch (const std::exception&) {
      // A GPU that fails, or lack of memory: this time is lost. The next call of the stream throws
      // the GPU's error, which a destructor cannot.
    }
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  void set_matrix(std::int64_t rows, std::int64_t columns) {
    key_.rows = rows;
    key_.columns = columns;
  }

 private:
  const Stream& stream_;
  ProfileKey key_;
  std::optional<Event> begin_;
};

}  // namespace caption
