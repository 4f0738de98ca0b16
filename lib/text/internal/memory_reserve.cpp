#include "text/internal/memory_reserve.h"

#include <cstdlib>
#include <new>

namespace caption::text {
namespace {

// The reserve of this thread. It is global because a new-handler has no parameters.
thread_local void* t_reserve = nullptr;

std::new_handler g_next_handler = nullptr;  // written once, before any reserve is made

void give_reserve() {
  if (t_reserve != nullptr) {
    std::free(t_reserve);
    t_reserve = nullptr;
    return;
  }
  if (g_next_handler == nullptr) throw std::bad_alloc();
  g_next_handler();
}

bool install_handler() {
  g_next_handler = std::get_new_handler();
  std::set_new_handler(&give_reserve);
  return true;
}

}  // namespace

MemoryReserve::MemoryReserve(std::size_t size_bytes) {
  [[maybe_unused]] static const bool is_installed = install_handler();
  t_reserve = std::malloc(size_bytes);
  if (t_reserve == nullptr) throw std::bad_alloc();
}

MemoryReserve::~MemoryReserve() {
  std::free(t_reserve);
  t_reserve = nullptr;
}

}  // namespace caption::text
