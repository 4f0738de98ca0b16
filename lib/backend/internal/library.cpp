#include "backend/internal/library.h"

#include <dlfcn.h>

namespace caption::internal {

Library::Library(const char* name)
    : name_(name), handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  const char* const message = ::dlerror();
  why_ = message == nullptr ? name_ + " cannot be loaded" : message;
}

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* Library::address_of(const char* symbol) {
  if (!why_.empty()) return nullptr;
  void* const address = ::dlsym(handle_, symbol);
  if (address == nullptr) why_ = name_ + " has no " + symbol;
  return address;
}

}  // namespace caption::internal
