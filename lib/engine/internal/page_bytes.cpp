#include "engine/internal/page_bytes.h"

#include "tensor/copy.h"

namespace caption::engine {
namespace {

std::int64_t size_bytes(ConstView part) {
  return part.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(part.dtype()));
}

}  // namespace

void copy_page(Stream& stream, const PageMemory& pages, const kv::PageCopy& copied) {
  const PageParts from = pages.parts_of(copied.from);
  const PageParts to = pages.parts_of(copied.to);
  copy(stream, from.kv, to.kv);
  if (!from.scales.empty()) copy(stream, from.scales, to.scales);
}

void read_page(Stream& stream, const PageMemory& pages, kv::PageId page, std::byte* bytes) {
  const PageParts from = pages.parts_of(page);
  copy(stream, from.kv, View(bytes, from.kv.dtype(), from.kv.shape()));
  if (from.scales.empty()) return;
  copy(stream, from.scales,
       View(bytes + size_bytes(from.kv), from.scales.dtype(), from.scales.shape()));
}

void write_page(Stream& stream, const PageMemory& pages, kv::PageId page, const std::byte* bytes) {
  const PageParts to = pages.parts_of(page);
  copy(stream, ConstView(bytes, to.kv.dtype(), to.kv.shape()), to.kv);
  if (to.scales.empty()) return;
  copy(stream, ConstView(bytes + size_bytes(to.kv), to.scales.dtype(), to.scales.shape()),
       to.scales);
}

}  // namespace caption::engine
