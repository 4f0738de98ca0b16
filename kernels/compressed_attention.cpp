#include "kernels/compressed_attention.h"

#include <string>

#include "base/error.h"

namespace caption::kernels {

bool has_compressed_attention(Device device) { return !device.is_cuda(); }

void refuse_compressed_attention(std::string_view subject) {
  throw Error(
      ErrorCode::kUnavailable,
      std::string(subject) + ": compressed attention runs on the CPU only; use --attention full");
}

}  // namespace caption::kernels
