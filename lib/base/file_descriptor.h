// base/file_descriptor.h: a class that owns a file descriptor.
#pragma once

#include <utility>

namespace caption {

// Owns a file descriptor and closes it; -1 means none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  int get() const { return number_; }
  // Returns the number, which is the caller's to close from then on.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace caption
