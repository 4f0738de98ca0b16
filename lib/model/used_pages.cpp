#include "model/internal/used_pages.h"

#include <algorithm>

#include "base/mapped_file.h"

namespace caption::model {
namespace {

// Bytes of files whose pages are released together.
constexpr std::int64_t kReleasedBytes = std::int64_t{32} << 20;
constexpr std::int64_t kLeastPageBytes = 4096;

}  // namespace

void UsedPages::add(std::span<const std::byte> bytes) {
  parts_.push_back(bytes);
  num_bytes_ += std::ssize(bytes);
  if (num_bytes_ >= kReleasedBytes) release();
}

void UsedPages::release() {
  std::sort(parts_.begin(), parts_.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  std::span<const std::byte> run;
  for (const std::span<const std::byte> bytes : parts_) {
    const std::byte* const end = run.data() + run.size();
    // Less than a page in between lies in pages that hold parts of both.
    if (!run.empty() && bytes.data() - end < kLeastPageBytes) {
      run = {run.data(), std::max(end, bytes.data() + bytes.size())};
    } else {
      release_pages(run);
      run = bytes;
    }
  }
  release_pages(run);
  parts_.clear();
  num_bytes_ = 0;
}

}  // namespace caption::model
