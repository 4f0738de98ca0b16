// model/internal/low_rank.h: the terms of an adapter on a device, and the merging of an adapter
// into a weight.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/stream.h"
#include "kernels/weight.h"
#include "model/decoder.h"
#include "model/internal/adapter.h"
#include "model/internal/scratch.h"
#include "tensor/tensor.h"

namespace caption::model {

// y += b (a x); b includes the adapter's scale.
struct LowRank {
  kernels::Weight a;  // [r, in], the numbers of the file
  kernels::Weight b;  // [out, r] f32
};

// The terms of one adapter, found by parameter. Borrows from the Adapter, which must outlive it.
// Moves, does not copy. Immutable after the last add(), so any number of threads may read it.
class AdapterTerms {
 public:
  // Places a term on the stream's device; a parameter has at most one.
  void add(Stream& stream, ParameterId parameter, const LoraTerm& term);
  // Null if the adapter leaves the parameter as it is.
  const LowRank* find(ParameterId parameter) const {
    const auto found = terms_.find(parameter);
    return found == terms_.end() ? nullptr : &found->second;
  }
  bool empty() const { return terms_.empty(); }
  std::int64_t max_rank() const { return max_rank_; }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  std::unordered_map<ParameterId, LowRank> terms_;
  std::vector<Tensor> scaled_;  // the matrices b, which the weights may borrow
  std::int64_t max_rank_ = 0;
  std::int64_t size_bytes_ = 0;
};

// Returns W + the sum of s * B A over `terms`, [rows, columns] f32 on the host, where W is `weight`
// [rows, columns] f32, bf16 or f16. Sums are f32, as in get_delta_weight() of peft for f32.
Tensor merge(Stream& stream, ConstView weight, std::span<const LoraTerm> terms);

// The adapters that a decoder applies beside its weights.
struct DecoderAdapters {
  std::vector<AdapterTerms> always;  // terms that every row gets
  std::vector<AdapterTerms> chosen;  // terms of the rows of StepBatch::adapted; index: AdaptedRows'
  bool empty() const { return always.empty() && chosen.empty(); }
};

// Adds the terms of the adapters to the outputs of a decoder's dense layers. The term of a row has
// the same bits alone and in any step. One thread at a time.
class LowRankLayers {
 public:
  LowRankLayers(const DecoderAdapters& adapters, Device device)
      : adapters_(adapters), inner_(device) {}

  // Sizes the scratch memory for `max_rows` rows at a time.
  void reserve(std::int64_t max_rows);
  std::int64_t scratch_bytes() const { return inner_.size_bytes(); }

  // Rows [first, first + count) of a step or of its logits, and those that chosen adapters change.
  struct Rows {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::span<const AdaptedRows> adapted;
  };
  // Whether an adapter changes the outputs of the dense layer for any of the rows.
  bool change(ParameterId weight, const Rows& rows) const;
  // y += the terms of the dense layer with input x [count, in] and output y [count, out] f32.
  void add(Stream& stream, ParameterId weight, const Rows& rows, ConstView x, View y);

 private:
  template <class Visit>
  void for_each_term(ParameterId weight, const Rows& rows, Visit visit) const;

  const DecoderAdapters& adapters_;
  Scratch inner_;  // [rows, rank]
};

}  // namespace caption::model
