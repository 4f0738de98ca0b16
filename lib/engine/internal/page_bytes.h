// engine/internal/page_bytes.h: copying whole pages, for copy-on-write and for tiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/page_table.h"
#include "model/decoder.h"

namespace caption::engine {

void copy_page(const model::KvPages& pages, const kv::PageCopy& copy);

// Bytes of a page: K of all layers, V of all layers, then their scales if there are any.
std::int64_t page_size_bytes(const model::KvPages& pages);
// Copies a page to or from `bytes`, which must be page_size_bytes() long.
void read_page(const model::KvPages& pages, kv::PageId page, std::span<std::byte> bytes);
void write_page(const model::KvPages& pages, kv::PageId page, std::span<const std::byte> bytes);

}  // namespace caption::engine
