// tests/support/no_descriptors.h: a process that has no descriptor left.
#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace caption::test {

// While it lives, whatever opens a file gets EMFILE; open files stay usable.
class NoDescriptors {
 public:
  NoDescriptors() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("getrlimit");
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) throw std::runtime_error("setrlimit");
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace caption::test
