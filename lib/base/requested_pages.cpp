#include "base/requested_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace caption {
namespace {

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

// Calls found(run) for the runs of pages that are not in the page cache; for none where the system
// does not say.
template <class Found>
void over_absent(std::span<const std::byte> pages, const Found& found) {
  const std::size_t size = page_bytes();
  std::vector<unsigned char> residency(pages.size() / size);
  if (::mincore(address_of(pages), pages.size(), residency.data()) != 0) return;
  const auto is_absent = [](unsigned char page) { return (page & 1U) == 0; };
  auto begin = std::find_if(residency.begin(), residency.end(), is_absent);
  while (begin != residency.end()) {
    const auto end = std::find_if_not(begin, residency.end(), is_absent);
    const auto first = static_cast<std::size_t>(begin - residency.begin());
    found(pages.subspan(first * size, static_cast<std::size_t>(end - begin) * size));
    begin = std::find_if(end, residency.end(), is_absent);
  }
}

}  // namespace

void RequestedPages::add(const MappedFile& file, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::span<const std::byte> requested = whole_pages(bytes);
  const bool is_again = requested.data() >= last_.data() &&
                        requested.data() + requested.size() <= last_.data() + last_.size();
  if (is_again) return;  // small tensors lie beside each other in a page
  last_ = requested;
  over_absent(requested, [&](std::span<const std::byte> pages) {
    absent_.push_back({.file = &file, .pages = pages});
  });
  request_pages(bytes);
}

// MADV_PAGEOUT would leave pages that were read and never accessed, and those that another
// processor has not put on the system's lists yet.
RequestedPages::~RequestedPages() {
  for (const Run& run : absent_) {
    ::madvise(address_of(run.pages), run.pages.size(), MADV_DONTNEED);  // mapped pages would stay
    ::posix_fadvise(run.file->file().descriptor(), run.pages.data() - run.file->bytes().data(),
                    static_cast<off_t>(run.pages.size()), POSIX_FADV_DONTNEED);
  }
}

}  // namespace caption
