// engine/internal/page_bytes.h: copying whole pages, for copy-on-write and for tiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/stream.h"
#include "kv/page_table.h"
#include "model/decoder.h"

namespace caption::engine {

void copy_page(Stream& stream, const model::KvPages& pages, const kv::PageCopy& copy);

// Bytes of a page: K of all layers, V of all layers, then their scales if there are any.
std::int64_t page_size_bytes(const model::KvPages& pages);
// Copy a page to or from `bytes` on the host, which must be page_size_bytes() long; complete when
// they return.
void read_page(Stream& stream, const model::KvPages& pages, kv::PageId page,
               std::span<std::byte> bytes);
void write_page(Stream& stream, const model::KvPages& pages, kv::PageId page,
                std::span<const std::byte> bytes);

}  // namespace caption::engine
