// tests/engine/host_step.h: a step of a GPU as copies on the host, for a decoder that computes
// there.
#pragma once

#include <deque>
#include <utility>

#include "model/decoder.h"
#include "tensor/copy.h"

namespace caption::testing {

class HostStep {
 public:
  HostStep(Stream& stream, const model::StepBatch& batch, const model::KvPages& kv, View logits)
      : batch_(batch), kv_(kv), logits_(DType::kF32, logits.shape()) {
    for (ConstView* const indices :
         {&batch_.tokens, &batch_.positions, &batch_.cu_seqlens, &batch_.context_lens,
          &batch_.block_tables, &batch_.slots, &batch_.vision_rows, &batch_.logit_rows}) {
      *indices = download(stream, *indices);
    }
    for (ConstView& piece : batch_.vision) piece = download(stream, piece);
    for (std::vector<View>* const pages : {&kv_.k, &kv_.v, &kv_.k_scales, &kv_.v_scales}) {
      for (View& layer : *pages) layer = download(stream, layer);
    }
  }

  const model::StepBatch& batch() const { return batch_; }
  const model::KvPages& kv() const { return kv_; }
  View logits() { return logits_.view(); }

  // Copies pages and logits to where the step's are.
  void upload(Stream& stream, const model::KvPages& kv, View logits) {
    for (std::size_t i = 0; i < kv.k.size(); ++i) {
      copy(stream, kv_.k[i], kv.k[i]);
      copy(stream, kv_.v[i], kv.v[i]);
    }
    if (logits.num_elements() > 0) copy(stream, logits_.view(), logits);
    stream.synchronize();
  }

 private:
  View download(Stream& stream, ConstView view) {
    if (view.empty() || view.num_elements() == 0) return View(nullptr, view.dtype(), view.shape());
    return copies_.emplace_back(copy_to(stream, Device::kCpu, view)).view();
  }

  model::StepBatch batch_;
  model::KvPages kv_;
  Tensor logits_;
  std::deque<Tensor> copies_;
};

}  // namespace caption::testing
