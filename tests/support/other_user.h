// tests/support/other_user.h: lets a thread of root open files as a user whom modes bind.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

namespace caption::test {

// While an object lives, its thread opens files with the rights of another user if the process is
// root's, which may read every file. Other users keep their own rights.
class OtherUser {
 public:
  OtherUser() {
    if (::geteuid() == 0) ::setfsuid(kNobody);
  }
  ~OtherUser() {
    if (::geteuid() == 0) ::setfsuid(0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
};

}  // namespace caption::test
