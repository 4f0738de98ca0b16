// kernels/compressed_attention.h: the devices that have the operations of compressed attention:
// attention_mass(), compact_kv(), cluster_keys(), and paged_attention() with key clusters.
#pragma once

#include <string_view>

#include "backend/device.h"

namespace caption::kernels {

// Whether the device has them. A GPU does not.
bool has_compressed_attention(Device device);

// Throws Error(kUnavailable): a sentence that begins with `subject`, such as the operation.
[[noreturn]] void refuse_compressed_attention(std::string_view subject);

}  // namespace caption::kernels
