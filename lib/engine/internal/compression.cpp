#include "engine/internal/compression.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "kernels/compact_kv.h"
#include "kernels/compressed_attention.h"
#include "kernels/key_clusters.h"
#include "tensor/copy.h"

namespace caption::engine {
namespace {

void require(bool is_good, const char* name, const char* wanted) {
  if (is_good) return;
  throw Error(ErrorCode::kUsage, "engine: " + std::string(name) + " of compressed attention " +
                                     "is out of range; wanted " + wanted);
}

std::int64_t clusters_for(const CompressionOptions& options, std::int64_t num_fixed) {
  return std::min(divide_up(num_fixed, options.tokens_per_cluster), kernels::kMaxKeyClusters);
}

kernels::KvLayer layer_of(const model::KvPages& pages, std::size_t layer) {
  kernels::KvLayer result{.k = pages.k[layer], .v = pages.v[layer]};
  if (!pages.k_scales.empty()) {
    result.k_scales = pages.k_scales[layer];
    result.v_scales = pages.v_scales[layer];
  }
  return result;
}

// Returns layer `index` of a tensor [layers, n] with the given shape of n elements.
View layer_view(Tensor& tensor, std::int64_t index, const Shape& shape) {
  return tensor.view().rows(index, 1).reshape(shape);
}

}  // namespace

void validate(const CompressionOptions& options, const model::DecoderSpec& spec, Device device) {
  if (options.mode != CompressionMode::kNone && !kernels::has_compressed_attention(device)) {
    kernels::refuse_compressed_attention("engine");
  }
  if (options.mode != CompressionMode::kNone && spec.has_window()) {
    const char* const name =
        options.mode == CompressionMode::kTopkMerge ? "topk-merge" : "squeezed";
    throw Error(ErrorCode::kUnavailable,
                "engine: attention " + std::string(name) +
                    " cannot be combined with the model's sliding_window; use --attention full");
  }
  if (options.mode == CompressionMode::kTopkMerge) {
    require(options.window_tokens >= 1, "the window", "at least 1 token");
    require(options.keep_tokens >= options.window_tokens, "the number of kept tokens",
            "at least the window");
    require(options.num_summaries >= 1, "the number of summaries", "at least 1");
  }
  if (options.mode == CompressionMode::kSqueezed) {
    require(options.tokens_per_cluster >= 1, "tokens per cluster", "at least 1");
    require(options.iterations >= 0 && options.iterations <= 1000, "the number of iterations",
            "0 to 1000");
    require(options.threshold >= 0 && options.threshold <= 1, "the threshold", "0 to 1");
  }
}

CompressedSequence::CompressedSequence(const CompressionOptions& options,
                                       const model::DecoderSpec& spec, Device device,
                                       std::int64_t num_prompt, std::int64_t first_fixed,
                                       std::int64_t num_fixed)
    : options_(options),
      spec_(spec),
      device_(device),
      num_prompt_(num_prompt),
      first_fixed_(first_fixed),
      num_fixed_(num_fixed) {
  CAPTION_CHECK(num_prompt >= 1 && first_fixed >= 0 && num_fixed >= 0 &&
                    first_fixed + num_fixed <= num_prompt,
                "engine: the fixed context is not within the prompt");
}

void CompressedSequence::reset() {
  is_finished_ = false;
  num_saved_ = 0;
  num_watched_ = 0;
  clusters_.clear();
  for (Tensor* const tensor : {&sums_, &sums_before_, &centroids_, &sizes_, &cluster_of_}) {
    *tensor = Tensor();
  }
}

std::int64_t CompressedSequence::kept_tokens() const {
  return std::min<std::int64_t>(options_.keep_tokens, num_prompt_);
}

// True when merging would not save a slot, because no more tokens would be dropped than summaries
// added: then all tokens stay.
bool CompressedSequence::is_prompt_short() const {
  return num_prompt_ - kept_tokens() <= options_.num_summaries;
}

std::int64_t CompressedSequence::first_watched() const {
  return std::max<std::int64_t>(0, num_prompt_ - options_.window_tokens);
}

std::optional<model::WatchedRows> CompressedSequence::watch(std::int64_t first_token,
                                                            std::int64_t num_tokens,
                                                            std::int32_t sequence,
                                                            std::int32_t first_row) {
  const std::int64_t end = first_token + num_tokens;
  CAPTION_CHECK(is_finished_ || end <= num_prompt_,
                "engine: a step goes past the prompt of a sequence to be compressed");
  if (options_.mode != CompressionMode::kTopkMerge || is_finished_ || is_prompt_short()) {
    return std::nullopt;
  }
  const std::int64_t first = std::max(first_token, first_watched());
  if (first >= end) return std::nullopt;
  if (sums_.empty()) {
    sums_ =
        Tensor::zeros(DType::kF32, {spec_.num_layers, spec_.num_kv_heads, num_prompt_}, device_);
  }
  sums_before_ = sums_.clone();
  num_watched_before_ = num_watched_;
  num_watched_ += end - first;
  return model::WatchedRows{.sequence = sequence,
                            .first_row = first_row + static_cast<std::int32_t>(first - first_token),
                            .num_rows = static_cast<std::int32_t>(end - first),
                            .sums = sums_.view()};
}

void CompressedSequence::undo_watch() {
  if (sums_before_.empty()) return;
  sums_ = std::move(sums_before_);
  num_watched_ = num_watched_before_;
}

std::int64_t CompressedSequence::finish_prompt(Stream& stream, const model::KvPages& pages,
                                               ConstView block_table) {
  CAPTION_CHECK(!is_finished_, "engine: a prompt is compressed once");
  is_finished_ = true;
  sums_before_ = Tensor();
  if (options_.mode == CompressionMode::kTopkMerge && !is_prompt_short()) {
    merge(stream, pages, block_table);
  }
  if (options_.mode == CompressionMode::kSqueezed && num_fixed_ > 0) {
    cluster(stream, pages, block_table);
  }
  return num_slots(num_prompt_);
}

void CompressedSequence::merge(Stream& stream, const model::KvPages& pages, ConstView block_table) {
  CAPTION_CHECK(num_watched_ == num_prompt_ - first_watched(),
                "engine: the rows at the end of a compressed prompt were not watched once each");
  const std::int64_t num_kept = kept_tokens();
  const Tensor sums = copy_to(stream, Device::kCpu, sums_.view());
  StagedTensor kept(device_, DType::kI32, {spec_.num_kv_heads, num_kept});
  for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
    for (std::int64_t head = 0; head < spec_.num_kv_heads; ++head) {
      const float* const mass =
          sums.as<float>() + (layer * spec_.num_kv_heads + head) * num_prompt_;
      const std::vector<std::int32_t> positions =
          most_attended({mass, static_cast<std::size_t>(num_prompt_)}, num_kept, first_watched());
      std::copy(positions.begin(), positions.end(),
                kept.host().as<std::int32_t>() + head * num_kept);
    }
    kept.upload(stream, spec_.num_kv_heads);
    kernels::compact_kv(stream, {.pages = layer_of(pages, static_cast<std::size_t>(layer)),
                                 .block_table = block_table,
                                 .num_tokens = num_prompt_,
                                 .kept = kept.device(),
                                 .num_summaries = options_.num_summaries});
  }
  num_saved_ = num_prompt_ - num_kept - options_.num_summaries;
  sums_ = Tensor();
}

void CompressedSequence::cluster(Stream& stream, const model::KvPages& pages,
                                 ConstView block_table) {
  const std::int64_t count = clusters_for(options_, num_fixed_);
  const std::int64_t kv_heads = spec_.num_kv_heads;
  const Shape centroids{kv_heads, count, spec_.head_dim};
  const Shape sizes{kv_heads, count};
  const Shape cluster_of{kv_heads, num_fixed_};
  centroids_ = Tensor(DType::kF32, {spec_.num_layers, centroids.num_elements()}, device_);
  sizes_ = Tensor(DType::kI32, {spec_.num_layers, sizes.num_elements()}, device_);
  cluster_of_ = Tensor(DType::kI32, {spec_.num_layers, cluster_of.num_elements()}, device_);
  for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
    const kernels::KvLayer layer_pages = layer_of(pages, static_cast<std::size_t>(layer));
    const View layer_centroids = layer_view(centroids_, layer, centroids);
    const View layer_sizes = layer_view(sizes_, layer, sizes);
    const View layer_cluster_of = layer_view(cluster_of_, layer, cluster_of);
    kernels::cluster_keys(stream,
                          {.k_pages = layer_pages.k,
                           .k_scales = layer_pages.k_scales,
                           .block_table = block_table,
                           .first_token = first_fixed_,
                           .iterations = options_.iterations},
                          layer_centroids, layer_sizes, layer_cluster_of);
    clusters_.push_back({.centroids = layer_centroids,
                         .sizes = layer_sizes,
                         .cluster_of = layer_cluster_of,
                         .first_token = first_fixed_,
                         .threshold = options_.threshold});
  }
}

const std::vector<kernels::KeyClusters>* CompressedSequence::clusters() const {
  return clusters_.empty() ? nullptr : &clusters_;
}

std::int64_t CompressedSequence::size_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor* const tensor : {&sums_, &sums_before_, &centroids_, &sizes_, &cluster_of_}) {
    bytes += tensor->size_bytes();
  }
  return static_cast<std::int64_t>(bytes);
}

std::int64_t compression_bytes(const CompressionOptions& options, const model::DecoderSpec& spec,
                               std::int64_t num_prompt, std::int64_t num_fixed) {
  const std::int64_t heads = spec.num_layers * spec.num_kv_heads;
  switch (options.mode) {
    case CompressionMode::kNone: return 0;
    case CompressionMode::kTopkMerge: return 2 * 4 * heads * num_prompt;
    case CompressionMode::kSqueezed: break;
  }
  return 4 * heads * (clusters_for(options, num_fixed) * (spec.head_dim + 1) + num_fixed);
}

std::vector<std::int32_t> most_attended(std::span<const float> mass, std::int64_t count,
                                        std::int64_t first_always) {
  const std::int64_t total = std::ssize(mass);
  CAPTION_CHECK(count <= total && total - first_always <= count,
                "engine: more tokens to keep than there are");
  std::vector<std::int32_t> order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  // A NaN mass ranks as the largest value, so that the comparison stays a strict weak order.
  const auto rank = [&](std::int32_t position) {
    const float value = mass[static_cast<std::size_t>(position)];
    return std::isnan(value) ? HUGE_VALF : value;
  };
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  };
  const std::int64_t num_others = count - (total - first_always);
  const auto end_of_others = order.begin() + first_always;
  std::nth_element(order.begin(), order.begin() + num_others, end_of_others, is_before);
  std::vector<std::int32_t> kept(order.begin(), order.begin() + num_others);
  kept.insert(kept.end(), end_of_others, order.end());
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace caption::engine
