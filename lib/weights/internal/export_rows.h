// weights/internal/export_rows.h: the bytes of a tensor of a GGUF file, from those of a checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "weights/internal/export_names.h"
#include "weights/source.h"

namespace caption::weights {

// Gives the bytes of a tensor, in their order, in parts of at most a MiB or one row. Releases the
// tensor of the source afterwards. Throws as Source::read(), and as encode_rows() with the source's
// name and the tensor's.
void write_tensor(const ExportedTensor& tensor, Source& source,
                  const std::function<void(std::span<const std::byte>)>& write);

}  // namespace caption::weights
