#include "tests/model/support.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/copy.h"
#include "tests/vision/synthetic_frame.h"
#include "vision/preprocess.h"

namespace caption::testing {
namespace {

namespace fs = std::filesystem;
using weights::WeightFormat;

std::unique_ptr<model::CaptionModel> open_composed_with(WeightFormat type, const char* projector,
                                                        std::int64_t layer, bool drop_cls,
                                                        std::int64_t pool_stride) {
  model::ComposedSource source = composed_source();
  source.projector = golden_folder() / "composed" / projector;
  source.vision_feature_layers = {layer};
  source.drop_cls = drop_cls;
  source.pool_stride = pool_stride;
  return model::open_composed(testing::tested_context(), source, type);
}

template <class Other>
double max_difference_of(std::span<const float> a, std::span<const Other> b) {
  CAPTION_CHECK(a.size() == b.size(), "comparing rows of different lengths");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return difference;
    worst = std::max(worst, difference);
  }
  return worst;
}

}  // namespace

fs::path golden_folder() { return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/model"; }

JsonObject open_golden(std::string_view name) {
  return JsonObject::open(golden_folder() / (std::string(name) + ".json"),
                          ErrorCode::kBadReference);
}

model::ComposedSource composed_source() {
  const fs::path folder = golden_folder() / "composed";
  return {.vision = folder / "vision",
          .projector = folder / "projector_mlp.safetensors",
          .llm = folder / "llm",
          .vision_feature_layers = {-1},
          .drop_cls = true,
          .pool_stride = 1,
          .prompt = "{video}{prompt}"};
}

std::span<const GoldenCase> golden_cases() {
  static constexpr GoldenCase kCases[] = {
      {"llama_bf16",
       [](WeightFormat type) {
         return model::open_model(testing::tested_context(), golden_folder() / "llama_bf16", type);
       }},
      {"qwen3_shards",
       [](WeightFormat type) {
         return model::open_model(testing::tested_context(), golden_folder() / "qwen3_shards",
                                  type);
       }},
      {"llama_old",
       [](WeightFormat type) {
         return model::open_model(testing::tested_context(), golden_folder() / "llama_old", type);
       }},
      {"composed_mlp",
       [](WeightFormat type) {
         return open_composed_with(type, "projector_mlp.safetensors", -1, true, 1);
       }},
      {"composed_linear",
       [](WeightFormat type) {
         return open_composed_with(type, "projector_linear.safetensors", -2, false, 1);
       }},
      {"composed_pooled",
       [](WeightFormat type) {
         return open_composed_with(type, "projector_mlp.safetensors", 1, true, 2);
       }},
  };
  return kCases;
}

std::unique_ptr<model::CaptionModel> open_case(std::string_view name, WeightFormat type) {
  for (const GoldenCase& c : golden_cases()) {
    if (c.name == name) return c.open(type);
  }
  throw Error(ErrorCode::kInternal, "no golden case " + std::string(name));
}

Tensor golden_pixel_values(ThreadPool& pool, const model::CaptionModel& model,
                           const JsonObject& golden) {
  const JsonObject frames = *golden.get_object("frames");
  const auto integer = [&](std::string_view key) {
    return static_cast<int>(frames.require_int(key, 0, 4096));
  };
  std::vector<video::Frame> list;
  for (int i = 0; i < integer("count"); ++i) {
    list.push_back(synthetic_frame(integer("height"), integer("width"),
                                   static_cast<std::uint32_t>(integer("seed") + i),
                                   frames.require_string("kind")));
  }
  Stream stream(pool);
  return vision::preprocess(stream, list, model.preprocess_spec()).values;
}

fs::path copy_checkpoint(std::string_view name, std::string_view copy_name) {
  const fs::path copy = fs::path(CAPTION_TEST_TMP) / "checkpoints" / copy_name;
  fs::remove_all(copy);
  fs::create_directories(copy.parent_path());
  fs::copy(golden_folder() / name, copy, fs::copy_options::recursive);
  return copy;
}

void replace_in_file(const fs::path& path, std::string_view from, std::string_view to) {
  std::string text = read_text_file(path);
  std::size_t at = text.find(from);
  CAPTION_CHECK(at != std::string::npos, path.string() + " does not hold " + std::string(from));
  for (; at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

Sequence::Sequence(model::Decoder& decoder, DType kv_dtype, std::int64_t max_tokens,
                   std::uint32_t page_seed, std::int64_t page_tokens)
    : decoder_(decoder), page_tokens_(page_tokens) {
  const model::DecoderSpec& spec = decoder.spec();
  const std::int64_t num_pages = (max_tokens + page_tokens - 1) / page_tokens;
  const Shape shape = {num_pages, page_tokens, spec.num_kv_heads, spec.head_dim};
  const Shape scales = {num_pages, page_tokens, spec.num_kv_heads};
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const Device device = tested_context().device;
    k_.emplace_back(kv_dtype, shape, device);
    v_.emplace_back(kv_dtype, shape, device);
    if (kv_dtype != DType::kI8) continue;
    k_scales_.emplace_back(DType::kBF16, scales, device);
    v_scales_.emplace_back(DType::kBF16, scales, device);
  }
  table_.resize(static_cast<std::size_t>(num_pages));
  std::iota(table_.begin(), table_.end(), 0);
  std::sort(table_.begin(), table_.end(), [page_seed](std::int32_t a, std::int32_t b) {
    return mix(static_cast<std::uint32_t>(a) + page_seed) <
           mix(static_cast<std::uint32_t>(b) + page_seed);
  });
}

std::int32_t Sequence::slot(std::int64_t position) const {
  return static_cast<std::int32_t>(table_[static_cast<std::size_t>(position / page_tokens_)] *
                                       page_tokens_ +
                                   position % page_tokens_);
}

Tensor Sequence::prefill(Stream& stream, const model::PromptIds& prompt, ConstView vision,
                         std::int64_t count) {
  prompt_positions_ = prompt.positions;
  const std::int64_t left = static_cast<std::int64_t>(prompt.ids.size()) - num_tokens_;
  const std::int64_t end = num_tokens_ + std::min(count, left);
  std::vector<std::int32_t> rows;
  std::int64_t first_token = -1;
  for (std::size_t i = 0; i < prompt.vision_positions.size(); ++i) {
    const std::int32_t position = prompt.vision_positions[i];
    if (position < num_tokens_ || position >= end) continue;
    if (first_token < 0) first_token = static_cast<std::int64_t>(i);
    rows.push_back(static_cast<std::int32_t>(position - num_tokens_));
  }
  std::vector<ConstView> pieces;
  if (!rows.empty()) {
    // With two or more tokens they are passed in two pieces, which the decoder must put together.
    const auto num_rows = static_cast<std::int64_t>(rows.size());
    const std::int64_t half = num_rows / 2;
    if (half > 0) pieces.push_back(vision.rows(first_token, half));
    pieces.push_back(vision.rows(first_token + half, num_rows - half));
  }
  const std::span<const std::int32_t> ids(prompt.ids);
  return run(stream,
             ids.subspan(static_cast<std::size_t>(num_tokens_),
                         static_cast<std::size_t>(end - num_tokens_)),
             rows, std::move(pieces));
}

Tensor Sequence::decode(Stream& stream, std::int32_t id) {
  return run(stream, std::span(&id, 1), {}, {});
}

std::vector<std::int32_t> Sequence::positions_of(std::int64_t first, std::int64_t count) const {
  const std::int64_t axes = decoder_.spec().position_axes();
  const std::int64_t num_prompt = std::ssize(prompt_positions_) / axes;
  std::int64_t shift = 0;
  if (num_prompt > 0) {
    shift = 1 + *std::max_element(prompt_positions_.begin(), prompt_positions_.end()) - num_prompt;
  }
  std::vector<std::int32_t> positions;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    for (std::int64_t i = first; i < first + count; ++i) {
      const bool is_given = i < num_prompt;
      positions.push_back(is_given
                              ? prompt_positions_[static_cast<std::size_t>(axis * num_prompt + i)]
                              : static_cast<std::int32_t>(i + shift));
    }
  }
  return positions;
}

Tensor Sequence::run(Stream& stream, std::span<const std::int32_t> ids,
                     std::span<const std::int32_t> vision_rows, std::vector<ConstView> vision) {
  const auto count = static_cast<std::int32_t>(ids.size());
  const std::int64_t first_token = num_tokens_;
  const auto slots_of = [&](std::int64_t num_tokens) {
    return compression_ == nullptr ? num_tokens : compression_->num_slots(num_tokens);
  };
  const std::vector<std::int32_t> positions = positions_of(first_token, count);
  std::vector<std::int32_t> slots, rows;
  for (std::int32_t i = 0; i < count; ++i) {
    slots.push_back(slot(slots_of(first_token) + i));
    rows.push_back(i);
  }
  num_tokens_ += count;
  const std::int32_t cu_seqlens[] = {0, count};
  const std::int32_t context_lens[] = {static_cast<std::int32_t>(slots_of(num_tokens_))};
  model::KvPages kv;
  for (Tensor& k : k_) kv.k.push_back(k.view());
  for (Tensor& v : v_) kv.v.push_back(v.view());
  for (Tensor& scales : k_scales_) kv.k_scales.push_back(scales.view());
  for (Tensor& scales : v_scales_) kv.v_scales.push_back(scales.view());
  kv.page_tokens = page_tokens_;
  std::deque<Tensor> uploaded;
  const auto upload = [&](std::span<const std::int32_t> indices) -> ConstView {
    uploaded.push_back(copy_to(stream, stream.device(), view_of(indices)));
    return std::as_const(uploaded.back()).view();
  };
  const ConstView table = upload(table_);
  model::StepBatch batch{.tokens = upload(ids),
                         .positions = decoder_.spec().has_mrope()
                                          ? upload(positions).reshape({3, count})
                                          : upload(positions),
                         .cu_seqlens = upload(cu_seqlens),
                         .context_lens = upload(context_lens),
                         .block_tables = table.reshape({1, std::ssize(table_)}),
                         .slots = upload(slots),
                         .vision_rows = upload(vision_rows),
                         .vision = std::move(vision),
                         .logit_rows = upload(rows)};
  std::optional<model::WatchedRows> watched;
  const std::vector<kernels::KeyClusters>* clusters[] = {nullptr};
  if (compression_ != nullptr) {
    watched = compression_->watch(first_token, count, 0, 0);
    if (watched.has_value()) batch.watched = std::span(&*watched, 1);
    clusters[0] = compression_->clusters();
    batch.clusters = clusters;
  }
  const model::AdaptedRows adapted{
      .adapter = adapter_.value_or(0), .first_row = 0, .num_rows = count};
  if (adapter_.has_value()) batch.adapted = batch.adapted_logits = std::span(&adapted, 1);
  Tensor logits(DType::kF32, {count, decoder_.spec().vocab}, stream.device());
  decoder_.forward(stream, batch, kv, logits.view());
  if (compression_ != nullptr && num_tokens_ == num_prompt_) {
    compression_->finish_prompt(stream, kv, table);
  }
  return copy_to(stream, Device::kCpu, logits.view());
}

Tensor to_host(Stream& stream, ConstView tensor) { return copy_to(stream, Device::kCpu, tensor); }

std::int32_t argmax(std::span<const float> row) {
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

std::span<const float> row_of(const Tensor& matrix, std::int64_t row) {
  return {matrix.as<float>() + row * matrix.dim(1), static_cast<std::size_t>(matrix.dim(1))};
}

double max_difference(std::span<const float> a, std::span<const double> b) {
  return max_difference_of(a, b);
}

double max_difference(std::span<const float> a, std::span<const float> b) {
  return max_difference_of(a, b);
}

Greedy run_greedy(Stream& stream, model::CaptionModel& model, const model::PromptIds& prompt,
                  ConstView vision, std::int64_t count, DType kv_dtype,
                  std::optional<std::int32_t> adapter) {
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.ids.size());
  Sequence sequence(model.decoder(), kv_dtype, prompt_tokens + count);
  if (adapter.has_value()) sequence.adapt(*adapter);
  Greedy greedy;
  greedy.last_logits = sequence.prefill(stream, prompt, vision, prompt_tokens);
  const std::span<const float> first = row_of(greedy.last_logits, prompt_tokens - 1);
  greedy.first_logits.assign(first.begin(), first.end());
  const std::vector<std::int32_t> stops = model.eos_ids();
  for (;;) {
    const Tensor& logits = greedy.last_logits;
    greedy.ids.push_back(argmax(row_of(logits, logits.dim(0) - 1)));
    const bool stopped = std::find(stops.begin(), stops.end(), greedy.ids.back()) != stops.end();
    if (stopped || static_cast<std::int64_t>(greedy.ids.size()) == count) return greedy;
    greedy.last_logits = sequence.decode(stream, greedy.ids.back());
  }
}

}  // namespace caption::testing
