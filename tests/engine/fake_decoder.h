// A decoder without weights whose logits hash all it reads from the pages: the content and position
// of every token from the first to the row's own, in two layers of K and V. A wrong page, slot,
// offset, length or vision row, or a page another sequence wrote to, changes the output.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::engine {

constexpr std::int64_t kFakeVocab = 61;
constexpr std::int64_t kFakeHidden = 6;

class FakeDecoder : public model::Decoder {
 public:
  explicit FakeDecoder(std::int64_t max_positions = 4096);

  const model::DecoderSpec& spec() const override { return spec_; }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override;
  std::int64_t scratch_bytes() const override { return 0; }
  // Throws Error(kInternal) when the batch contradicts itself.
  void forward(Stream& stream, const model::StepBatch& batch, const model::KvPages& kv,
               View logits) override;

  // Called at the begin of forward(); may throw.
  std::function<void(const model::StepBatch&)> on_forward;
  // A prompt with this token has NaN logits; -1: none.
  std::int32_t poison_token = -1;

 private:
  void write_tokens(const model::StepBatch& batch, const model::KvPages& kv);
  void write_logits(const model::StepBatch& batch, const model::KvPages& kv, std::int64_t row,
                    std::span<float> logits) const;

  model::DecoderSpec spec_;
};

// The output of a request by the definition: no pages, no batch, no engine.
std::vector<std::int32_t> expected_output(const Request& request, std::int32_t poison_token = -1);

// Runs the engine until it is idle; completions in order of finish.
std::vector<Completion> run_until_idle(Engine& engine);

// Options whose budget holds exactly so many pages of the fake decoder.
EngineOptions options_with_pages(std::int64_t num_pages, DType dtype = DType::kF32);

// Requests of many kinds: with and without vision tokens, greedy and sampled, with penalties, and
// with up to four beams of at most 20 tokens. At most `max_tokens` tokens with their output.
Request random_request(std::uint64_t seed, std::int64_t max_tokens);
// The same, but all of a family begin with the same text and the same video: 45 tokens.
Request family_request(std::uint64_t family, std::uint64_t seed, std::int64_t max_tokens);

}  // namespace caption::engine
