#include "base/requested_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/mapped_file.h"

namespace caption {
namespace {

#if defined(MADV_PAGEOUT)
constexpr int kPageOut = MADV_PAGEOUT;
#else
constexpr int kPageOut = 21;  // Linux's number; the C library may be older
#endif

std::uintptr_t page_bytes() { return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// The pages that contain `bytes`.
std::span<const std::byte> whole_pages(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t before = begin % page_bytes();
  const std::uintptr_t size = before + bytes.size();
  const std::uintptr_t rounded = (size + page_bytes() - 1) / page_bytes() * page_bytes();
  return {bytes.data() - before, rounded};
}

void* address_of(std::span<const std::byte> pages) {
  return const_cast<std::byte*>(pages.data());  // for advice, which changes no content
}

// Appends the runs of pages that are not in the page cache; none where the system does not say.
void append_absent(std::span<const std::byte> pages,
                   std::vector<std::span<const std::byte>>& runs) {
  const std::size_t size = page_bytes();
  std::vector<unsigned char> residency(pages.size() / size);
  if (::mincore(address_of(pages), pages.size(), residency.data()) != 0) return;
  const auto is_absent = [](unsigned char page) { return (page & 1U) == 0; };
  auto begin = std::find_if(residency.begin(), residency.end(), is_absent);
  while (begin != residency.end()) {
    const auto end = std::find_if_not(begin, residency.end(), is_absent);
    const auto first = static_cast<std::size_t>(begin - residency.begin());
    runs.push_back(pages.subspan(first * size, static_cast<std::size_t>(end - begin) * size));
    begin = std::find_if(end, residency.end(), is_absent);
  }
}

}  // namespace

void RequestedPages::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  append_absent(whole_pages(bytes), absent_);
  request_pages(bytes);
}

RequestedPages::~RequestedPages() {
  for (const std::span<const std::byte> pages : absent_) {
    ::madvise(address_of(pages), pages.size(), kPageOut);
  }
}

}  // namespace caption
