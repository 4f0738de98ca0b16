// engine/internal/compression.h: compressed attention of one sequence, from its prompt on.
//
//   topk-merge  after the prompt, per layer and key head, the K prompt tokens that the last W rows
//               of the prompt attended to most stay (as SnapKV, arXiv:2404.14469); those W rows are
//               always among them; the others become `num_summaries` means. The cache is smaller
//               from then on, and what the means blur is lost.
//   squeezed    after the prompt its vision tokens are clustered by their keys (arXiv:2411.09688);
//               rows after the prompt attend to the clusters that matter. Nothing is lost and no
//               page is saved: the clusters come on top.
// Both change captions. What they do depends on the sequence alone, so a request's output stays
// independent of its batch, of chunks and of preemption, provided that
//   - a step that computes prompt rows of a compressed sequence ends at the prompt's end at the
//     latest: rows after it come in later steps, also when they are computed again;
//   - the pages of a topk-merge sequence are its own before finish_prompt() (not shared, not
//     published), since it writes to them, and its last W prompt tokens are computed, not found
//     in a prefix cache, since their rows vote.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "engine/options.h"
#include "kernels/paged_attention.h"
#include "model/decoder.h"
#include "tensor/tensor.h"

namespace caption::engine {

// Throws Error(kUsage) for an option out of range.
void validate(const CompressionOptions& options);

// What one sequence keeps beside its pages. One thread at a time.
class CompressedSequence {
 public:
  // The prompt's tokens [first_fixed, first_fixed + num_fixed) are the fixed context of squeezed
  // attention: its vision tokens; there may be none.
  CompressedSequence(const CompressionOptions& options, const model::DecoderSpec& spec,
                     std::int64_t num_prompt, std::int64_t first_fixed, std::int64_t num_fixed);

  // Forgets all: the prompt will be computed again.
  void reset();

  // The rows to watch in a step that computes the prompt's tokens [first_token, first_token +
  // num_tokens) as rows first_row, ... of `sequence`; nullopt: none.
  std::optional<model::WatchedRows> watch(std::int64_t first_token, std::int64_t num_tokens,
                                          std::int32_t sequence, std::int32_t first_row);

  // The step whose rows watch() has named last did not happen.
  void undo_watch();

  // The prompt is in the pages of `block_table` ([pages] page ids). Compresses them, or clusters
  // their keys, and returns how many slots the sequence's K and V take now: the next token goes to
  // slot number slots() of its table, at position num_prompt.
  // Throws Error(kInternal) when it was called before (since reset()).
  std::int64_t finish_prompt(Stream& stream, const model::KvPages& pages,
                             std::span<const std::int32_t> block_table);

  // Slots that a sequence of `num_tokens` tokens takes: fewer than tokens once it is compressed.
  std::int64_t num_slots(std::int64_t num_tokens) const { return num_tokens - num_saved_; }

  bool is_finished() const { return is_finished_; }  // finish_prompt() was called

  // By layer, for StepBatch::clusters; null before finish_prompt() and without a cluster.
  const std::vector<kernels::KeyClusters>* clusters() const;

  // Of sums and clusters, held now. At most compression_bytes() of the options.
  std::int64_t size_bytes() const;

 private:
  void merge(Stream& stream, const model::KvPages& pages,
             std::span<const std::int32_t> block_table);
  void cluster(Stream& stream, const model::KvPages& pages,
               std::span<const std::int32_t> block_table);
  std::int64_t kept_tokens() const;    // of the prompt, topk-merge
  bool is_prompt_short() const;        // nothing to merge
  std::int64_t first_watched() const;  // position

  CompressionOptions options_;
  model::DecoderSpec spec_;
  std::int64_t num_prompt_;
  std::int64_t first_fixed_;
  std::int64_t num_fixed_;
  bool is_finished_ = false;
  std::int64_t num_saved_ = 0;
  std::int64_t num_watched_ = 0;                // rows
  std::int64_t num_watched_before_ = 0;         // before the last watch()
  Tensor sums_;                                 // [layers, kv_heads, num_prompt] f32
  Tensor sums_before_;                          // the same before the last watch()
  Tensor centroids_, sizes_, cluster_of_;       // [layers, ...], as KeyClusters has them
  std::vector<kernels::KeyClusters> clusters_;  // views of them, by layer
};

// The most memory that one sequence of such a prompt holds beside its pages.
std::int64_t compression_bytes(const CompressionOptions& options, const model::DecoderSpec& spec,
                               std::int64_t num_prompt, std::int64_t num_fixed);

// The `count` positions of largest mass, ascending; of equal masses the earlier ones. Positions
// from first_always on are always among them. count <= mass.size().
std::vector<std::int32_t> most_attended(std::span<const float> mass, std::int64_t count,
                                        std::int64_t first_always);

}  // namespace caption::engine
