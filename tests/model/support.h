// tests/model/support.h: goldens, and running one sequence through a decoder without the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/json.h"
#include "engine/internal/compression.h"
#include "model/caption_model.h"
#include "tensor/tensor.h"
#include "tests/support/tested_context.h"

namespace caption::testing {

// The folder tests/golden/model, made by scripts/make_checkpoints.py and
// scripts/make_goldens_model.py.
std::filesystem::path golden_folder();
JsonObject open_golden(std::string_view name);  // <name>.json

// A golden and how to open the model that it was made with.
struct GoldenCase {
  std::string_view name;
  std::unique_ptr<model::CaptionModel> (*open)(weights::WeightFormat type);
};
std::span<const GoldenCase> golden_cases();
std::unique_ptr<model::CaptionModel> open_case(
    std::string_view name, weights::WeightFormat type = weights::WeightFormat::kF32);
model::ComposedSource composed_source();  // the source of the case composed_mlp

// Returns the pixel values of a golden's frames.
Tensor golden_pixel_values(ThreadPool& pool, const model::CaptionModel& model,
                           const JsonObject& golden);

// Copies a golden checkpoint into CAPTION_TEST_TMP, where a test may change it.
std::filesystem::path copy_checkpoint(std::string_view name, std::string_view copy_name);
// Replaces `from`, which must occur, with `to` everywhere in a file. In a safetensors file both
// must have the same length, so that offsets stay valid.
void replace_in_file(const std::filesystem::path& path, std::string_view from, std::string_view to);

// One sequence in a separate set of pages, which are assigned in random order.
class Sequence {
 public:
  Sequence(model::Decoder& decoder, DType kv_dtype, std::int64_t max_tokens,
           std::uint32_t page_seed = 1, std::int64_t page_tokens = 16);

  // Computes at most `count` of the prompt's tokens that are not in the pages yet, and returns
  // their logits [number of tokens, vocab].
  Tensor prefill(Stream& stream, const model::PromptIds& prompt, ConstView vision,
                 std::int64_t count);
  // Computes one token and returns its logits [1, vocab].
  Tensor decode(Stream& stream, std::int32_t id);
  std::int64_t num_tokens() const { return num_tokens_; }
  // Applies one of the decoder's adapters to all tokens from now on.
  void adapt(std::int32_t adapter) { adapter_ = adapter; }
  // Enables compression of a prompt of this many tokens; `compression` is borrowed. Call it before
  // the first prefill; the last prefill must end with the prompt.
  void compress(engine::CompressedSequence& compression, std::int64_t num_prompt) {
    compression_ = &compression;
    num_prompt_ = num_prompt;
  }

 private:
  std::int32_t slot(std::int64_t position) const;
  std::vector<std::int32_t> positions_of(std::int64_t first, std::int64_t count) const;
  Tensor run(Stream& stream, std::span<const std::int32_t> ids,
             std::span<const std::int32_t> vision_rows, std::vector<ConstView> vision);

  model::Decoder& decoder_;
  std::int64_t page_tokens_;
  std::vector<Tensor> k_, v_;
  std::vector<Tensor> k_scales_, v_scales_;  // for pages of i8
  std::vector<std::int32_t> table_;
  std::int64_t num_tokens_ = 0;
  std::vector<std::int32_t> prompt_positions_;  // [3, prompt] with M-RoPE, else empty
  engine::CompressedSequence* compression_ = nullptr;
  std::int64_t num_prompt_ = 0;
  std::optional<std::int32_t> adapter_;
};

// Returns a copy on the host.
Tensor to_host(Stream& stream, ConstView tensor);

std::int32_t argmax(std::span<const float> row);
std::span<const float> row_of(const Tensor& matrix, std::int64_t row);
double max_difference(std::span<const float> a, std::span<const double> b);
double max_difference(std::span<const float> a, std::span<const float> b);

// Greedy decoding until `count` tokens or a stop id, with the logits of the first and the last
// choice.
struct Greedy {
  std::vector<std::int32_t> ids;
  std::vector<float> first_logits;
  Tensor last_logits;
};
Greedy run_greedy(Stream& stream, model::CaptionModel& model, const model::PromptIds& prompt,
                  ConstView vision, std::int64_t count, DType kv_dtype = DType::kF32,
                  std::optional<std::int32_t> adapter = std::nullopt);

}  // namespace caption::testing
