#include "engine/internal/page_bytes.h"

#include <vector>

#include "base/error.h"
#include "tensor/copy.h"

namespace caption::engine {
namespace {

std::size_t bytes_of_page(const View& layer) {
  return static_cast<std::size_t>(layer.row_stride()) * dtype_size_bytes(layer.dtype());
}

// Returns one page of one layer as a vector.
View page_of(const View& layer, kv::PageId page) {
  return layer.rows(static_cast<std::int64_t>(page), 1).reshape({layer.row_stride()});
}

template <class Work>
void for_each_layer(const model::KvPages& pages, const Work& work) {
  for (const std::vector<View>* views : {&pages.k, &pages.v, &pages.k_scales, &pages.v_scales}) {
    for (const View& layer : *views) work(layer);
  }
}

}  // namespace

void copy_page(Stream& stream, const model::KvPages& pages, const kv::PageCopy& copied) {
  for_each_layer(pages, [&](const View& layer) {
    copy(stream, page_of(layer, copied.from), page_of(layer, copied.to));
  });
}

std::int64_t page_size_bytes(const model::KvPages& pages) {
  std::size_t sum = 0;
  for_each_layer(pages, [&](const View& layer) { sum += bytes_of_page(layer); });
  return static_cast<std::int64_t>(sum);
}

void read_page(Stream& stream, const model::KvPages& pages, kv::PageId page,
               std::span<std::byte> bytes) {
  CAPTION_CHECK(std::ssize(bytes) == page_size_bytes(pages), "engine: a page of another size");
  std::byte* to = bytes.data();
  for_each_layer(pages, [&](const View& layer) {
    const View from = page_of(layer, page);
    copy(stream, from, View(to, from.dtype(), from.shape()));
    to += bytes_of_page(layer);
  });
  stream.synchronize();
}

void write_page(Stream& stream, const model::KvPages& pages, kv::PageId page,
                std::span<const std::byte> bytes) {
  CAPTION_CHECK(std::ssize(bytes) == page_size_bytes(pages), "engine: a page of another size");
  const std::byte* from = bytes.data();
  for_each_layer(pages, [&](const View& layer) {
    const View to = page_of(layer, page);
    copy(stream, ConstView(from, to.dtype(), to.shape()), to);
    from += bytes_of_page(layer);
  });
  stream.synchronize();
}

}  // namespace caption::engine
