// engine/internal/compression.h: compressed attention of one sequence.
//
//   topk-merge  after the prompt, for every layer and key head, the K prompt tokens to which the
//               last W rows of the prompt attended most are kept (as in SnapKV, arXiv:2404.14469);
//               these W tokens are always kept; the others are merged into `num_summaries` means.
//               The cache is smaller from then on; the details of the merged tokens are lost.
//   squeezed    after the prompt its vision tokens are clustered by their keys (arXiv:2411.09688);
//               rows after the prompt attend only to relevant clusters. No tokens are lost and no
//               page is saved: the clusters need additional memory.
// Both change captions. The result depends only on the sequence, so a request's output stays
// independent of its batch, of chunks and of preemption, provided that
//   - a step that computes prompt rows of a compressed sequence ends at the prompt's end at the
//     latest: rows after it come in later steps, also when they are recomputed;
//   - before finish_prompt(), which writes to them, the pages of a topk-merge sequence are neither
//     shared nor published; and its last W prompt tokens are computed, not found in a prefix cache,
//     since their rows determine which tokens are kept.
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

// Throws Error(kUsage) for an option out of range; Error(kUnavailable) on a GPU, and when the
// decoder has a sliding window: its rows count positions, of which topk-merge leaves some out, and
// it makes no sense to estimate the attention of clusters that a row does not see.
void validate(const CompressionOptions& options, const model::DecoderSpec& spec, Device device);

// The state of one sequence's compression besides its pages. One thread at a time.
class CompressedSequence {
 public:
  // The prompt's tokens [first_fixed, first_fixed + num_fixed), its vision tokens, are the fixed
  // context of squeezed attention; num_fixed may be 0.
  CompressedSequence(const CompressionOptions& options, const model::DecoderSpec& spec,
                     Device device, std::int64_t num_prompt, std::int64_t first_fixed,
                     std::int64_t num_fixed);

  // Resets all state, for a prompt that will be computed again.
  void reset();

  // Returns the rows to watch in a step that computes the prompt's tokens [first_token, first_token
  // + num_tokens) as rows first_row, ... of the batch's sequence `sequence`; nullopt if there are
  // none.
  std::optional<model::WatchedRows> watch(std::int64_t first_token, std::int64_t num_tokens,
                                          std::int32_t sequence, std::int32_t first_row);

  // Undoes the last watch(), whose step failed.
  void undo_watch();

  // Call when the whole prompt is in the pages of `block_table` ([pages] i32 page ids on the
  // device). Merges tokens or clusters their keys, and returns how many slots the sequence's K and
  // V take now: the next token, at position num_prompt, goes to the slot of that index in its
  // table. Throws Error(kInternal) when called twice without reset(), or when the last rows were
  // not watched.
  std::int64_t finish_prompt(Stream& stream, const model::KvPages& pages, ConstView block_table);

  // Returns the slots that a sequence of `num_tokens` tokens takes, fewer than tokens after
  // merging.
  std::int64_t num_slots(std::int64_t num_tokens) const { return num_tokens - num_saved_; }

  bool is_finished() const { return is_finished_; }  // whether finish_prompt() was called

  // One per layer, for StepBatch::clusters; null before finish_prompt() and without clusters.
  const std::vector<kernels::KeyClusters>* clusters() const;

  // Bytes of sums and clusters held now, at most compression_bytes() of the same prompt.
  std::int64_t size_bytes() const;

 private:
  void merge(Stream& stream, const model::KvPages& pages, ConstView block_table);
  void cluster(Stream& stream, const model::KvPages& pages, ConstView block_table);
  std::int64_t kept_tokens() const;    // prompt tokens that topk-merge keeps
  bool is_prompt_short() const;        // whether there is nothing to merge
  std::int64_t first_watched() const;  // position of the first watched row

  CompressionOptions options_;
  model::DecoderSpec spec_;
  Device device_;
  std::int64_t num_prompt_;
  std::int64_t first_fixed_;
  std::int64_t num_fixed_;
  bool is_finished_ = false;
  std::int64_t num_saved_ = 0;
  std::int64_t num_watched_ = 0;                // rows watched so far
  std::int64_t num_watched_before_ = 0;         // value before the last watch()
  Tensor sums_;                                 // [layers, kv_heads, num_prompt] f32
  Tensor sums_before_;                          // value before the last watch()
  Tensor centroids_, sizes_, cluster_of_;       // [layers, ...], shapes as in KeyClusters
  std::vector<kernels::KeyClusters> clusters_;  // views of these tensors, one per layer
};

// Returns the most memory that one sequence of such a prompt holds besides its pages.
std::int64_t compression_bytes(const CompressionOptions& options, const model::DecoderSpec& spec,
                               std::int64_t num_prompt, std::int64_t num_fixed);

// Returns the `count` positions of largest mass, ascending; the earlier of equal ones are taken.
// Includes all positions from first_always on. count <= mass.size().
std::vector<std::int32_t> most_attended(std::span<const float> mass, std::int64_t count,
                                        std::int64_t first_always);

}  // namespace caption::engine
