// base/requested_pages.h: pages of a mapped file that are read early, by themselves.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/mapped_file.h"

namespace caption {

// For small parts in all places of a file whose rest is read later, in order: the system reads the
// requested pages alone, where an access would read megabytes around each. A page that is alone in
// the page cache keeps the system from reading what is around it in large pieces, so the pages that
// were not in memory before are given back to the system when the object is destroyed: the later
// reading reads them again.
//
// The files must live as long. A page that another process has mapped stays. Changes no content.
// Not thread-safe.
class RequestedPages {
 public:
  RequestedPages() = default;
  ~RequestedPages();
  RequestedPages(RequestedPages&& other) = default;
  RequestedPages& operator=(RequestedPages&&) = delete;

  // Asks for the pages of `bytes`, a part of `file`; does not wait for them.
  void add(const MappedFile& file, std::span<const std::byte> bytes);

 private:
  struct Run {
    const MappedFile* file;
    std::span<const std::byte> pages;
  };
  std::vector<Run> absent_;
  std::span<const std::byte> last_;  // whole pages, the last ones that were asked for
};

}  // namespace caption
