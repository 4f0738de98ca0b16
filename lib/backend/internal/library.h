// backend/internal/library.h: a shared library that is loaded when it is needed, so that one binary
// starts on machines with and without it.
#pragma once

#include <string>

namespace caption::internal {

// Loads a library and looks up its functions. It stays loaded, because threads that it started may
// run in it until the process ends.
class Library {
 public:
  // `name` is what dlopen() takes.
  explicit Library(const char* name);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Sets `function`; after an earlier failure does nothing.
  template <class Function>
  void find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(address_of(symbol));
  }
  // Empty while all is found; else the system's message, or the function that is missing.
  const std::string& why() const { return why_; }

 private:
  void* address_of(const char* symbol);

  std::string name_;
  void* handle_;
  std::string why_;
};

}  // namespace caption::internal
