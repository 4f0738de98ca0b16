// base/requested_pages.h: pages of a mapped file that are read early, by themselves.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace caption {

// For small parts in all places of a file whose rest is read later, in order: the system reads the
// requested pages alone, where an access would read megabytes around each. A page that is alone in
// the page cache keeps the system from reading what is around it in large pieces, so the pages that
// were not in memory before are given back to the system when the object is destroyed: the later
// reading reads them again.
//
// The mapping must live as long. Giving back needs Linux 5.4 and the right to write the file;
// without them, pages stay. Changes no content. Not thread-safe.
class RequestedPages {
 public:
  RequestedPages() = default;
  ~RequestedPages();
  RequestedPages(RequestedPages&& other) = default;
  RequestedPages& operator=(RequestedPages&&) = delete;

  // Asks for the pages of `bytes`, a part of a MappedFile; does not wait for them.
  void add(std::span<const std::byte> bytes);

 private:
  std::vector<std::span<const std::byte>> absent_;  // runs of whole pages
};

}  // namespace caption
