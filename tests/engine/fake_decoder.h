// tests/engine/fake_decoder.h: a decoder without weights whose logits are a hash of everything that
// it reads from the pages: content and position of every token that the row's token sees, in
// two layers of K and V or more. A wrong page, slot, offset, length or vision row, or a page
// overwritten by another sequence, changes the output.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/decoder.h"
#include "tests/support/batch_arrays.h"
#include "tests/support/tested_context.h"

namespace caption::engine {

constexpr std::int64_t kFakeVocab = 61;
constexpr std::int64_t kFakeHidden = 6;
constexpr std::int64_t kFakeLayers = 2;

class FakeDecoder : public model::Decoder {
 public:
  // With windows a row sees the last tokens up to the wider one, or all of them if one is 0.
  explicit FakeDecoder(std::int64_t max_positions = 4096, std::vector<std::int64_t> windows = {},
                       std::int64_t num_layers = kFakeLayers);

  const model::DecoderSpec& spec() const override { return spec_; }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override;
  std::int64_t scratch_bytes() const override { return 0; }
  // Throws Error(kInternal) when the batch is inconsistent.
  void forward(Stream& stream, const model::StepBatch& batch, const model::KvPages& kv,
               View logits) override;

  // One for the LM head and one for each layer.
  std::int64_t step_weight_bytes(std::span<const std::int32_t> layers) const override;

  // Percent of the contexts whose logits change when a layer is left out, for each layer.
  std::vector<std::uint64_t> percent_changed;
  // Called at the begin of forward(); may throw.
  std::function<void(const testing::BatchArrays&)> on_forward;
  // A prompt with this token has NaN logits; -1 disables this.
  std::int32_t poison_token = -1;

 private:
  void compute(const testing::BatchArrays& batch, const model::KvPages& kv, View logits);
  void write_tokens(const testing::BatchArrays& batch, const model::KvPages& kv);
  void write_logits(const testing::BatchArrays& batch, const model::KvPages& kv, std::int64_t row,
                    std::span<float> logits) const;

  model::DecoderSpec spec_;
};

// Returns the output of a request by definition, without pages, batches or an engine; `window` is
// that of all layers, 0 for none.
std::vector<std::int32_t> expected_output(const Request& request, std::int32_t poison_token = -1,
                                          std::int64_t window = 0);

// An engine on tested_context(), where the vision tokens of requests are copied to its device.
class TestedEngine : public Engine {
 public:
  TestedEngine(model::Decoder& decoder, Stream& stream, const EngineOptions& options)
      : Engine(decoder, stream, options), stream_(stream) {}
  // On the emulated GPU, which takes up to 0.1 s for a token, the host chooses the tokens of the
  // request (Request::process_logits); elsewhere as submit_as_is().
  RequestId submit(Request request);
  RequestId submit_as_is(Request request);

 private:
  Stream& stream_;
};

// Runs the engine until it is idle; returns completions in the order in which they finished.
std::vector<Completion> run_until_idle(Engine& engine);

// Returns options whose budget holds exactly `num_pages` pages of the fake decoder.
EngineOptions options_with_pages(std::int64_t num_pages, DType dtype = DType::kF32,
                                 std::int64_t num_layers = kFakeLayers);

// Returns one of many kinds of requests: with and without vision tokens, greedy and sampled, with
// penalties, and with up to four beams of at most 20 tokens; without beams on the emulated GPU,
// which takes milliseconds for each of their rows. Prompt and output have at most `max_tokens`
// tokens together.
Request random_request(std::uint64_t seed, std::int64_t max_tokens);
// Like random_request(), but all requests of a family begin with the same text and video: 45
// tokens.
Request family_request(std::uint64_t family, std::uint64_t seed, std::int64_t max_tokens);

}  // namespace caption::engine
