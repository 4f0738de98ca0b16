#include "engine/internal/page_bytes.h"

#include <cstring>
#include <vector>

#include "base/error.h"

namespace caption::engine {
namespace {

std::size_t bytes_of_page(const View& layer) {
  return static_cast<std::size_t>(layer.row_stride()) * dtype_size_bytes(layer.dtype());
}

std::byte* begin_of_page(const View& layer, kv::PageId page) {
  return static_cast<std::byte*>(layer.raw()) +
         static_cast<std::size_t>(page) * bytes_of_page(layer);
}

template <class Work>
void for_each_layer(const model::KvPages& pages, const Work& work) {
  for (const std::vector<View>* views : {&pages.k, &pages.v, &pages.k_scales, &pages.v_scales}) {
    for (const View& layer : *views) work(layer);
  }
}

}  // namespace

void copy_page(const model::KvPages& pages, const kv::PageCopy& copy) {
  for_each_layer(pages, [&](const View& layer) {
    std::memcpy(begin_of_page(layer, copy.to), begin_of_page(layer, copy.from),
                bytes_of_page(layer));
  });
}

std::int64_t page_size_bytes(const model::KvPages& pages) {
  std::size_t sum = 0;
  for_each_layer(pages, [&](const View& layer) { sum += bytes_of_page(layer); });
  return static_cast<std::int64_t>(sum);
}

void read_page(const model::KvPages& pages, kv::PageId page, std::span<std::byte> bytes) {
  CAPTION_CHECK(std::ssize(bytes) == page_size_bytes(pages), "engine: a page of another size");
  std::byte* to = bytes.data();
  for_each_layer(pages, [&](const View& layer) {
    std::memcpy(to, begin_of_page(layer, page), bytes_of_page(layer));
    to += bytes_of_page(layer);
  });
}

void write_page(const model::KvPages& pages, kv::PageId page, std::span<const std::byte> bytes) {
  CAPTION_CHECK(std::ssize(bytes) == page_size_bytes(pages), "engine: a page of another size");
  const std::byte* from = bytes.data();
  for_each_layer(pages, [&](const View& layer) {
    std::memcpy(begin_of_page(layer, page), from, bytes_of_page(layer));
    from += bytes_of_page(layer);
  });
}

}  // namespace caption::engine
