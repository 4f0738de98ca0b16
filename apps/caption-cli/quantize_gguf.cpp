#include "quantize_gguf.h"

#include <string>

#include "base/counted.h"
#include "base/log.h"
#include "base/units.h"
#include "records/file_name.h"

namespace caption::cli {

void report_gguf(const quantise::GgufFormat& format, const std::filesystem::path& output,
                 const std::optional<weights::GgufSummary>& made) {
  if (!made) {
    log_warning("quantize", "interrupted; the same command continues");
    return;
  }
  if (made->tensors_kept > 0) {
    log_info("quantize",
             std::to_string(made->tensors_kept) + " of " + counted(made->num_tensors, "tensor") +
                 " " + std::string(plural(made->tensors_kept, "is", "are")) + " of an earlier run");
  }
  for (const std::string& tensor : made->kept_f16) {
    log_detail("quantize", tensor + " is f16: its rows are no multiple of 32");
  }
  if (!made->kept_f16.empty()) {
    log_warning("quantize",
                counted(std::ssize(made->kept_f16), "matrix is", "matrices are") +
                    " f16, because the rows are no multiple of 32: " + made->kept_f16.front() +
                    (made->kept_f16.size() > 1 ? ", ..." : ""));
  }
  std::string files = made->text_file.filename().string();
  if (made->tower_file) files += " and " + made->tower_file->filename().string();
  log_info("quantize", records::escape_file_name(output.string()) + ": " +
                           counted(made->num_tensors, "tensor") + " in " +
                           std::string(format.name) + ", " + format_bytes(made->size_bytes) +
                           " in " + records::escape_file_name(files));
}

}  // namespace caption::cli
