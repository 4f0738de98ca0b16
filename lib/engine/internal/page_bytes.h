// engine/internal/page_bytes.h: copying whole pages, for copy-on-write and for tiers. All copies
// are work of the stream, which runs while the host goes on: memory of the host is used again after
// a synchronisation only.
#pragma once

#include <cstddef>

#include "backend/stream.h"
#include "engine/internal/page_memory.h"
#include "kv/page_table.h"

namespace caption::engine {

void copy_page(Stream& stream, const PageMemory& pages, const kv::PageCopy& copied);

// Copy a page to or from memory of the host, PageMemory::page_bytes() long: K of all layers, V of
// all layers, then their scales if there are any.
void read_page(Stream& stream, const PageMemory& pages, kv::PageId page, std::byte* bytes);
void write_page(Stream& stream, const PageMemory& pages, kv::PageId page, const std::byte* bytes);

}  // namespace caption::engine
