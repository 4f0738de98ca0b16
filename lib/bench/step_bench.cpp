#include "bench/step_bench.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "bench/internal/library_product.h"
#include "bench/profile_report.h"
#include "bench/statistics.h"
#include "kernels/beam_candidates.h"
#include "kernels/sample_rows.h"
#include "kv/page_pool.h"
#include "tensor/copy.h"
#include "tensor/tensor.h"

namespace caption::bench {
namespace {

// The sampling that bench/cuda_prediction.h counts.
constexpr float kTemperature = 0.8F;
constexpr double kTopP = 0.95;
constexpr std::int32_t kTopK = 50;
constexpr int kProfiledSteps = 3;
// Steps of a kind take about so long together; one is timed if it takes longer.
constexpr double kStepsSeconds = 1;
constexpr int kTuring = 75;  // compute capability of GPUs without bf16

std::int32_t to_i32(std::int64_t value) { return static_cast<std::int32_t>(value); }

Tensor on_device(Stream& stream, const std::vector<std::int32_t>& values) {
  Tensor tensor(DType::kI32, {std::ssize(values)});
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return copy_to(stream, stream.device(), std::as_const(tensor).view());
}

// A step's pages, arrays and results on the device. Sequence s has the pages [s * n, (s + 1) * n),
// of which those that it shares with earlier sequences stand idle.
class StepInput {
 public:
  StepInput(Stream& stream, const model::DecoderSpec& spec, const CudaStep& step,
            const StepBenchOptions& options)
      : logits_(DType::kF32, {step.num_sequences, spec.vocab}, stream.device()),
        tokens_(DType::kI32, {step.num_sequences}, stream.device()) {
    make_pages(stream, spec, step, options.kv_dtype);
    make_batch(stream, spec, step, options.seed);
    if (step.num_beams > 1) {
      make_beams(stream, step);
    } else {
      make_samplings(stream, step, options.seed);
    }
  }

  // Gives the stream the work of a step.
  void issue(Stream& stream, model::Decoder& decoder) {
    decoder.forward(stream, batch_, pages_, logits_.view());
    const ConstView logits = std::as_const(logits_).view();
    const ConstView rows = std::as_const(samplings_).view();
    const ConstView ids = std::as_const(arrays_.front()).view();
    if (candidates_.empty()) {
      kernels::sample_rows(stream, {.logits = logits, .rows = rows, .ids = ids}, tokens_.view());
    } else {
      kernels::beam_candidates(stream, {.logits = logits, .rows = rows, .ids = ids},
                               candidates_.view());
    }
  }

 private:
  void make_pages(Stream& stream, const model::DecoderSpec& spec, const CudaStep& step,
                  DType dtype) {
    pages_each_ = kv::pages_for_tokens(step.context_tokens);
    const Shape shape = {step.num_sequences * pages_each_, kv::kPageTokens, spec.num_kv_heads,
                         spec.head_dim};
    const auto add = [&](DType of, const Shape& extents, std::vector<View>& views) {
      views.push_back(memory_.emplace_back(Tensor::zeros(of, extents, stream.device())).view());
    };
    const std::int64_t tensors_each = dtype == DType::kI8 ? 4 : 2;
    memory_.reserve(static_cast<std::size_t>(tensors_each * spec.num_layers));
    for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
      add(dtype, shape, pages_.k);
      add(dtype, shape, pages_.v);
      if (dtype != DType::kI8) continue;
      add(DType::kBF16, {shape[0], shape[1], shape[2]}, pages_.k_scales);
      add(DType::kBF16, {shape[0], shape[1], shape[2]}, pages_.v_scales);
    }
    pages_.page_tokens = kv::kPageTokens;
  }

  void make_batch(Stream& stream, const model::DecoderSpec& spec, const CudaStep& step,
                  std::uint64_t seed) {
    std::vector<std::int32_t> ids, positions, slots, last_rows, tables;
    std::vector<std::int32_t> cu_seqlens = {0};
    for (std::int64_t s = 0; s < step.num_sequences; ++s) {
      for (std::int64_t i = step.context_tokens - step.new_tokens; i < step.context_tokens; ++i) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
        ids.push_back(to_i32(static_cast<std::int64_t>(seed >> 33U) % spec.vocab));
        positions.push_back(to_i32(i));
        slots.push_back(to_i32(s * pages_each_ * kv::kPageTokens + i));
      }
      cu_seqlens.push_back(to_i32(std::ssize(ids)));
      last_rows.push_back(to_i32(std::ssize(ids) - 1));
      const std::int64_t first_sharing = s - s % step.sharing_sequences;
      for (std::int64_t page = 0; page < pages_each_; ++page) {
        const bool is_shared = page < step.shared_tokens / kv::kPageTokens;
        tables.push_back(to_i32((is_shared ? first_sharing : s) * pages_each_ + page));
      }
    }
    const std::int64_t num_tokens = std::ssize(ids);
    const std::int64_t axes = spec.position_axes();
    for (std::int64_t i = num_tokens; i < axes * num_tokens; ++i) {
      positions.push_back(positions[static_cast<std::size_t>(i - num_tokens)]);
    }
    const std::vector<std::int32_t> lens(static_cast<std::size_t>(step.num_sequences),
                                         to_i32(step.context_tokens));
    arrays_.reserve(7);
    const auto view = [&](const std::vector<std::int32_t>& values) {
      return std::as_const(arrays_.emplace_back(on_device(stream, values))).view();
    };
    batch_.tokens = view(ids);
    batch_.positions = view(positions);
    if (axes > 1) batch_.positions = batch_.positions.reshape({axes, num_tokens});
    batch_.cu_seqlens = view(cu_seqlens);
    batch_.context_lens = view(lens);
    batch_.block_tables = view(tables).reshape({step.num_sequences, pages_each_});
    batch_.slots = view(slots);
    batch_.logit_rows = view(last_rows);
    batch_.vision_rows = batch_.tokens.rows(0, 0);
  }

  void make_samplings(Stream& stream, const CudaStep& step, std::uint64_t seed) {
    const std::vector<kernels::RowSampling> rows(
        static_cast<std::size_t>(step.num_sequences),
        {.seed = seed, .top_p = kTopP, .temperature = kTemperature, .top_k = kTopK});
    Tensor bytes(DType::kI8, {step.num_sequences, kernels::kRowSamplingBytes});
    std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
    samplings_ = copy_to(stream, stream.device(), std::as_const(bytes).view());
  }

  // Beams without penalties, with one stop id.
  void make_beams(Stream& stream, const CudaStep& step) {
    const std::int32_t num_candidates = step.num_beams + 1;
    const std::vector<kernels::BeamRow> rows(static_cast<std::size_t>(step.num_sequences),
                                             {.num_candidates = num_candidates});
    Tensor bytes(DType::kI8, {step.num_sequences, kernels::kBeamRowBytes});
    std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
    samplings_ = copy_to(stream, stream.device(), std::as_const(bytes).view());
    candidates_ =
        Tensor(DType::kI8, {step.num_sequences, num_candidates, kernels::kBeamCandidateBytes},
               stream.device());
  }

  std::int64_t pages_each_ = 0;
  std::vector<Tensor> memory_;  // the pages' memory
  model::KvPages pages_;
  std::vector<Tensor> arrays_;  // the batch's arrays; the first are the token ids
  model::StepBatch batch_;
  Tensor samplings_;   // a RowSampling or BeamRow of each row
  Tensor candidates_;  // empty without beams
  Tensor logits_;
  Tensor tokens_;
};

double seconds_of_step(Stream& stream, model::Decoder& decoder, StepInput& input, int num_rounds) {
  std::vector<Event> events;
  events.push_back(stream.record());
  for (int round = 0; round < num_rounds; ++round) {
    input.issue(stream, decoder);
    events.push_back(stream.record());
  }
  std::vector<double> seconds;
  for (std::size_t i = 1; i < events.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(events[i].since(events[i - 1])).count());
  }
  return median(std::move(seconds));
}

std::vector<OperationTime> profile_step(Stream& stream, model::Decoder& decoder, StepInput& input,
                                        int num_steps) {
  Profile profile;
  input.issue(stream, decoder);  // the GPU is busy while the host issues the next one
  stream.set_profile(&profile);
  for (int i = 0; i < num_steps; ++i) input.issue(stream, decoder);
  stream.set_profile(nullptr);
  std::vector<OperationTime> operations =
      name_operations(profile.entries(), named_matrices(decoder.spec()), 0);
  for (OperationTime& operation : operations) {
    operation.calls /= num_steps;
    operation.seconds /= num_steps;
  }
  return operations;
}

void add_prediction(const CudaCard& card, const model::DecoderSpec& spec, MeasuredStep& measured) {
  for (const CudaWork& work : list_operations(card, spec, measured.step)) {
    const CudaTime time = predict(card, work);
    measured.predicted_s += time.seconds;
    measured.dram_bytes += work.dram_bytes;
    measured.flops += work.product_flops * work.products;
    const auto found =
        std::find_if(measured.operations.begin(), measured.operations.end(),
                     [&](const StepOperation& one) { return one.operation == work.operation; });
    if (found == measured.operations.end()) continue;
    found->kernel = work.kernel;
    found->predicted_s += time.seconds;
    found->limit = time.limit;
  }
}

// Seconds of the library's products for all calls of a dense layer; 0 for other operations. A
// step's prompt may be computed in several pieces, which are taken as equal.
double time_library(Stream& stream, const model::DecoderSpec& spec, const CudaStep& step,
                    const OperationTime& operation, const StepBenchOptions& options) {
  const model::LinearSpec& matrix = operation.matrix;
  if (options.library == nullptr || matrix.out == 0) return 0;
  const bool is_head = matrix.out == spec.vocab;
  const std::int64_t rows = is_head ? step.num_sequences : step.num_sequences * step.new_tokens;
  const std::int64_t pieces =
      std::max<std::int64_t>(is_head ? operation.calls : operation.calls / spec.num_layers, 1);
  const CublasLtShape shape{.rows = (rows + pieces - 1) / pieces,
                            .features = matrix.out,
                            .columns = matrix.in,
                            .is_bf16 = stream.context().compute_capability != kTuring};
  return static_cast<double>(operation.calls) *
         time_library_product(stream, *options.library, shape, options.num_rounds);
}

MeasuredStep measure_step(Stream& stream, model::Decoder& decoder, const CudaStep& step,
                          const StepBenchOptions& options) {
  StepInput input(stream, decoder.spec(), step, options);
  input.issue(stream, decoder);  // the first step grows the scratch memory
  stream.synchronize();
  MeasuredStep measured{.step = step};
  measured.seconds = seconds_of_step(stream, decoder, input, 1);
  const auto rounds = [&](int most) {
    return std::clamp(static_cast<int>(kStepsSeconds / measured.seconds), 1, most);
  };
  const int num_profiled = rounds(kProfiledSteps);
  if (const int num_rounds = rounds(options.num_rounds); num_rounds > 1) {
    measured.seconds = seconds_of_step(stream, decoder, input, num_rounds);
  }
  for (const OperationTime& operation : profile_step(stream, decoder, input, num_profiled)) {
    if (operation.calls == 0) continue;
    measured.operations.push_back(
        {.operation = operation.name,
         .calls = operation.calls,
         .seconds = operation.seconds,
         .library_s = time_library(stream, decoder.spec(), step, operation, options)});
  }
  stream.synchronize();
  if (options.card != nullptr) add_prediction(*options.card, decoder.spec(), measured);
  return measured;
}

}  // namespace

std::vector<CudaStep> make_steps(std::int64_t prefill_tokens, std::int64_t context_tokens,
                                 const std::vector<std::int32_t>& batches) {
  std::vector<CudaStep> steps = {{.name = "prefill of " + counted(prefill_tokens, "token"),
                                  .new_tokens = prefill_tokens,
                                  .context_tokens = prefill_tokens}};
  for (const std::int32_t sequences : batches) {
    steps.push_back({.name = "decoding of " + counted(sequences, "sequence") + " of " +
                             counted(context_tokens, "token"),
                     .num_sequences = sequences,
                     .context_tokens = context_tokens});
  }
  return steps;
}

const CudaCard* find_card_of(const CudaDevice& gpu) {
  std::string word;
  for (const char c : gpu.name + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (const CudaCard* const card = find_cuda_card(word)) return card;
    word.clear();
  }
  return nullptr;
}

StepBench bench_steps(Stream& stream, model::Decoder& decoder, const StepBenchOptions& options) {
  CAPTION_CHECK(!options.steps.empty() && options.num_rounds >= 1, "bench: no step to time");
  for (const CudaStep& step : options.steps) {
    if (step.context_tokens <= decoder.spec().max_positions) continue;
    throw Error(ErrorCode::kUsage, "bench: " + step.name + ": the model has " +
                                       std::to_string(decoder.spec().max_positions) +
                                       " positions; give a lower --prompt-tokens");
  }
  StepBench bench;
  if (options.card != nullptr) bench.card = options.card->name;
  bench.before = measure_roofline(stream, options.roofline);
  for (const CudaStep& step : options.steps) {
    if (options.on_step) options.on_step(step.name);
    bench.steps.push_back(measure_step(stream, decoder, step, options));
  }
  bench.after = measure_roofline(stream, options.roofline);
  return bench;
}

}  // namespace caption::bench
