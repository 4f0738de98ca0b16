// The operations of model::TransformerDecoder::forward(), of sample_rows() and of
// beam_candidates(), counted for CUDA.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/cuda_prediction.h"
#include "bench/internal/attention_work.h"
#include "bench/internal/cuda_codes.h"
#include "bench/internal/cuda_fp8.h"
#include "bench/internal/cuda_integers.h"
#include "bench/internal/cuda_tiles.h"
#include "bench/internal/kernel_record.h"
#include "bench/profile_report.h"

namespace caption::bench {
namespace {

constexpr double kTile = 16;  // features, and columns, of a product's first operand
constexpr double kWeightBytes = 2;
// SampleRow's passes over the logits after the first (kernels/cuda/sample_rows.cu): five for
// top_k and one that lists what it keeps. Instructions per logit, those of penalties included, that
// the machine code for sm_90 has in the loops of the first pass and of a pass of top_k.
constexpr double kSamplePasses = 6;
constexpr double kPrepareInstructions = 82;
constexpr double kPassInstructions = 28;
// FindCandidates' passes over the logits (kernels/cuda/beam_candidates.cu), and the instructions
// per logit, those of penalties included, that the machine code for sm_90 has in the loops of all
// four; those of a warp that sorts its part of a list of 1,024 keys, which happens twice: 15 steps
// through shared memory and 40 by shuffles.
constexpr double kBeamPasses = 4;
constexpr double kBeamInstructions = 192;
constexpr double kBeamSortInstructions = 2 * (15 + 40) * 40;
constexpr double kBeamWarps = 32;
constexpr double kWarpLanes = 32;
constexpr std::int64_t kMostFewRows = 16;    // rows that FewRows takes: kernels/cuda/dense_layer.h
constexpr std::int64_t kMostNormedRows = 8;  // kernels/cuda/linear.cpp

double as_double(std::int64_t n) { return static_cast<double>(n); }
double round_up(double size, double unit) { return std::ceil(size / unit) * unit; }

// Adds the calls of an operation to those before it.
void add(std::vector<CudaWork>& works, const CudaWork& work) {
  const auto same = std::find_if(works.begin(), works.end(), [&](const CudaWork& other) {
    return other.operation == work.operation && other.kernel == work.kernel;
  });
  if (same == works.end()) {
    works.push_back(work);
    return;
  }
  same->calls += work.calls;
  same->launches += work.launches;
  same->dram_bytes += work.dram_bytes;
  same->l2_bytes += work.l2_bytes;
  same->wavefronts += work.wavefronts;
  same->products += work.products;
  same->instructions += work.instructions;
  same->wait_seconds += work.wait_seconds;
}

class Counter {
 public:
  explicit Counter(const CudaCard& card) : card_(card) {}

  std::vector<CudaWork> take() { return std::move(works_); }

  // An operation that reads and writes each byte once, `calls` times.
  void move(const char* operation, const char* kernel, double bytes, std::int64_t calls) {
    const auto recorded = find_recorded(kernel, card_.architecture);
    CudaWork work{.operation = operation, .kernel = recorded ? recorded->name : ""};
    work.calls = work.launches = calls;
    work.l2_bytes = bytes * as_double(calls);
    if (bytes > card_.l2_bytes / 2) work.dram_bytes = work.l2_bytes;
    add(works_, work);
  }

  // A dense layer of `rows` rows of f32.
  void multiply(const std::string& operation, std::int64_t rows, const DenseShape& layer,
                std::int64_t calls) {
    const CudaWork call = layer.format == MatrixFormat::kE4M3Row ? launch_fp8(card_, rows, layer)
                          : has_integer_products(layer.format) ? launch_integers(card_, rows, layer)
                          : has_codes(layer.format)            ? launch_codes(card_, rows, layer)
                          : rows <= kMostFewRows               ? launch_few_rows(rows, layer)
                                                               : launch_tiles(card_, rows, layer);
    CudaWork work{.operation = operation, .kernel = call.kernel};
    work.bytes_in_flight = call.bytes_in_flight;
    work.product_flops = call.product_flops;
    work.has_warpgroups = call.has_warpgroups;
    work.blocks = call.blocks;
    add_scaled(work, call, as_double(calls));
    work.calls = calls;
    add(works_, work);
  }

  void attend(const AttentionCall& call, std::int64_t calls) {
    CudaWork work = count_attention(card_, call);
    work.calls *= calls;
    work.launches *= calls;
    for (double* const sum : {&work.dram_bytes, &work.l2_bytes, &work.wavefronts, &work.products,
                              &work.instructions, &work.wait_seconds}) {
      *sum *= as_double(calls);
    }
    add(works_, work);
  }

  // A launch of kernels/cuda/sample_rows.cu for rows of logits from which tokens are drawn: a block
  // per row reads the logits, writes them divided by the temperature and reads those once per pass.
  void sample(std::int64_t rows, std::int64_t vocab) {
    const double logits = as_double(rows * vocab);
    const double bytes = 4 * logits * (2 + kSamplePasses);
    CudaWork work{.operation = "sample_rows"};
    work.calls = work.launches = 1;
    work.l2_bytes = bytes;
    if (8 * logits > card_.l2_bytes / 2) work.dram_bytes = bytes;
    work.blocks = as_double(rows);
    work.instructions =
        logits / kWarpLanes * (kPrepareInstructions + kSamplePasses * kPassInstructions);
    if (const auto recorded = find_recorded("SampleRow<4>", card_.architecture)) {
      work.kernel = recorded->name;
      work.bytes_in_flight = recorded->bytes_ahead * recorded->threads / kWarpLanes;
    }
    add(works_, work);
  }

  // A launch of kernels/cuda/beam_candidates.cu for rows of beams: a block per row reads the logits
  // once per pass.
  void find_candidates(std::int64_t rows, std::int64_t vocab) {
    const double logits = as_double(rows * vocab);
    CudaWork work{.operation = "beam_candidates"};
    work.calls = work.launches = 1;
    work.l2_bytes = 4 * logits * kBeamPasses;
    if (4 * logits > card_.l2_bytes / 2) work.dram_bytes = work.l2_bytes;
    work.blocks = as_double(rows);
    work.instructions = logits / kWarpLanes * kBeamInstructions +
                        as_double(rows) * kBeamWarps * kBeamSortInstructions;
    if (const auto recorded = find_recorded("FindCandidates<4>", card_.architecture)) {
      work.kernel = recorded->name;
      work.bytes_in_flight = recorded->bytes_ahead * recorded->threads / kWarpLanes;
    }
    add(works_, work);
  }

 private:
  // A launch of kernels/cuda/few_rows.cu: a block computes 16 features of each operand and reads
  // all of x, twice if it normalises x itself. Without a record of it, what any kernel needs.
  CudaWork launch_few_rows(std::int64_t rows, const DenseShape& layer) const {
    constexpr double kWavefrontsOfTile = 8;  // 512 bytes into the ring and out of it
    constexpr double kChunkColumns = 64;
    // Wavefronts per chunk of x: a row takes two lines and a store; ldmatrix takes 4 for 8 rows.
    constexpr double kWavefrontsOfRow = 3;
    constexpr double kWavefrontsOfRoundedRow = 2;
    constexpr double kWavefrontsOfStep = 4;
    // Instructions per chunk, and per two rows of a chunk, in the code of nvcc 13.0 for
    // load_chunk().
    constexpr double kChunkInstructions = 60;
    constexpr double kRowsInstructions = 70;
    // Per chunk of x of 16 bits, and per four rows of it.
    constexpr double kRoundedInstructions = 60;
    constexpr double kRoundedRowsInstructions = 10;
    const model::LinearSpec& matrix = layer.matrix;
    const int operands = layer.operands;
    const bool has_norm = layer.has_norm;
    const bool has_fused_norm = has_norm && rows <= kMostNormedRows;
    const double features = round_up(as_double(matrix.out), kTile);
    const double steps = std::ceil(as_double(matrix.in) / kTile);
    const std::int64_t groups = rows <= 8 ? 1 : 2;
    const double tiles = features / kTile * steps;
    const double blocks = features / kTile / operands;
    CudaWork work{.launches = has_norm && !has_fused_norm ? 2 : 1};
    work.dram_bytes = kWeightBytes * kTile * kTile * tiles;
    work.l2_bytes = work.dram_bytes + 4 * as_double(rows * (matrix.in + matrix.out));
    work.products = as_double(groups) * tiles;
    const bool has_bf16 = card_.architecture >= 80;  // sm_75 has f16, in steps of k = 8
    const std::string name = std::string("FewRows<") + (has_bf16 ? "BF16, " : "F16, ") +
                             std::to_string(groups) + ", 4, " + std::to_string(operands);
    const auto recorded = find_recorded(name, card_.architecture);
    if (!recorded) return work;
    work.kernel = recorded->name;
    const double chunks = blocks * std::ceil(as_double(matrix.in) / kChunkColumns);
    const double passes = has_fused_norm ? 2 : 1;  // passes over x
    // A norm of its own leaves x in 16 bits.
    const bool is_rounded = layer.takes_rounded || (has_norm && !has_fused_norm);
    const double x_bytes = passes * (is_rounded ? 2 : 4);
    work.l2_bytes = work.dram_bytes + x_bytes * blocks * as_double(rows * matrix.in);
    const double of_row = is_rounded ? kWavefrontsOfRoundedRow : kWavefrontsOfRow;
    const double of_chunk =
        is_rounded
            ? kRoundedInstructions + kRoundedRowsInstructions * std::ceil(as_double(rows) / 4)
            : kChunkInstructions + kRowsInstructions * std::ceil(as_double(rows) / 2);
    work.wavefronts = chunks * as_double(rows) * (of_row + 2 * (passes - 1)) +
                      blocks * steps * as_double(groups) * kWavefrontsOfStep +
                      tiles * kWavefrontsOfTile;
    work.instructions =
        work.products * (has_bf16 ? 1 : 2) * recorded->instructions_per_product + chunks * of_chunk;
    const double resident = std::min<double>(recorded->blocks, std::ceil(blocks / card_.num_sms));
    // sm_75 has the tiles of the next chunk in registers.
    const double bytes_ahead =
        has_bf16 ? recorded->bytes_ahead
                 : kWeightBytes * kTile * kChunkColumns * static_cast<double>(operands);
    work.bytes_in_flight = bytes_ahead * recorded->threads / 32 * resident;
    return work;
  }

  static void add_scaled(CudaWork& to, const CudaWork& work, double times) {
    to.kernel = work.kernel;
    to.bytes_in_flight = work.bytes_in_flight;
    to.launches += std::llround(as_double(work.launches) * times);
    to.dram_bytes += work.dram_bytes * times;
    to.l2_bytes += work.l2_bytes * times;
    to.wavefronts += work.wavefronts * times;
    to.products += work.products * times;
    to.instructions += work.instructions * times;
  }

  const CudaCard& card_;
  std::vector<CudaWork> works_;
};

// Bytes of a number that an operation writes for a product alone.
double input_bytes(MatrixFormat format) { return has_codes(format) ? 4 : kWeightBytes; }

// Whether the launches of a kernel may begin before those before them have ended
// (kernels/cuda/dependent_launch.cuh).
bool begins_early(const CudaCard& card, const CudaStep& step, std::string_view kernel) {
  constexpr std::string_view kDependent[] = {"FewRows<", "RopeKvWrite<", "AttendTiles<",
                                             "RmsNorm<"};
  return step.is_graph() && card.architecture >= 90 &&
         std::any_of(std::begin(kDependent), std::end(kDependent),
                     [kernel](std::string_view name) { return kernel.starts_with(name); });
}

// The operations of a layer's pieces of `rows` rows, and of all layers.
void count_piece(Counter& counter, const model::DecoderSpec& shape, std::int64_t rows,
                 MatrixFormat format) {
  const std::int64_t layers = shape.num_layers;
  const double q = as_double(rows * shape.q_dim());
  const double kv = as_double(rows * shape.kv_dim());
  const double table = as_double(rows * shape.head_dim);
  counter.multiply("norm_linear q, k, v", rows,
                   {.matrix = {.out = shape.q_dim() + 2 * shape.kv_dim(), .in = shape.hidden},
                    .has_norm = true,
                    .format = format},
                   layers);
  // q in and out; k and v in, and into the pages.
  counter.move("rope_kv_write", "RopeKvWrite<BF16, 4>",
               8 * q + 2 * (4 + kWeightBytes) * kv + 4 * table, layers);
  counter.multiply("norm_linear_swiglu gate, up", rows,
                   {.matrix = {.out = 2 * shape.intermediate, .in = shape.hidden},
                    .operands = 2,
                    .has_norm = true,
                    .format = format,
                    .output_bytes = input_bytes(format)},
                   layers);
  counter.multiply("linear_add down", rows,
                   {.matrix = {.out = shape.hidden, .in = shape.intermediate},
                    .format = format,
                    .takes_rounded = !has_codes(format)},
                   layers);
}

}  // namespace

std::vector<CudaWork> list_operations(const CudaCard& card, const model::DecoderSpec& shape,
                                      const CudaStep& step, weights::WeightFormat weights) {
  const MatrixFormat format = matrix_format(weights, weights::Role::kDecoderLinear);
  const std::int64_t rows = step.num_sequences * step.new_tokens;
  Counter counter(card);
  counter.move("rope_table", "RopeTable", 4 * as_double(rows * shape.head_dim), 1);
  counter.move("embedding", "Embed", (4 + kWeightBytes) * as_double(rows * shape.hidden), 1);
  const std::int64_t piece_rows = model::decoder_piece_rows(Device::kCuda);
  for (std::int64_t first = 0; first < rows; first += piece_rows) {
    count_piece(counter, shape, std::min(piece_rows, rows - first), format);
  }
  counter.attend({.operation = "paged_attention",
                  .sequences = step.num_sequences,
                  .new_tokens = step.new_tokens,
                  .keys = step.context_tokens,
                  .shared_keys = step.shared_tokens,
                  .sharing_sequences = step.sharing_sequences,
                  .heads = shape.num_heads,
                  .kv_heads = shape.num_kv_heads,
                  .head_dim = shape.head_dim,
                  .output_bytes = input_bytes(format),
                  .begins_early = begins_early(card, step, "AttendTiles<")},
                 shape.num_layers);
  counter.multiply("linear_add o", rows,
                   {.matrix = {.out = shape.hidden, .in = shape.q_dim()},
                    .format = format,
                    .takes_rounded = !has_codes(format)},
                   shape.num_layers);
  const MatrixFormat head_format = matrix_format(weights, weights::Role::kHead);
  const double last = as_double(step.num_sequences * shape.hidden);
  counter.move("gather_rows", "MoveRows<Bytes16, (Moves)0>", 8 * last, 1);
  counter.move("rms_norm", "RmsNorm<4>", 8 * last, 1);
  counter.multiply("linear lm_head", step.num_sequences,
                   {.matrix = {.out = shape.vocab, .in = shape.hidden},
                    .format = head_format,
                    .takes_rounded = !has_codes(head_format)},
                   1);
  if (step.num_beams > 1) {
    counter.find_candidates(step.num_sequences, shape.vocab);
  } else {
    counter.sample(step.num_sequences, shape.vocab);
  }
  std::vector<CudaWork> works = counter.take();
  for (CudaWork& work : works) {
    work.launch_seconds = begins_early(card, step, work.kernel) ? kDependentLaunchSeconds
                          : step.is_graph()                     ? kGraphLaunchSeconds
                                                                : kLaunchSeconds;
  }
  return works;
}

std::vector<CudaWork> list_tower_operations(const CudaCard& card, const model::VisionSpec& shape,
                                            std::int64_t num_frames) {
  const std::int64_t patches = shape.grid() * shape.grid();
  const std::int64_t tokens = patches + shape.class_tokens;
  const std::int64_t rows = num_frames * tokens;
  const std::int64_t layers = shape.num_layers;
  const double row_bytes = 4 * as_double(shape.hidden);
  Counter counter(card);
  counter.move("im2col_patches", "Im2col",
               8 * as_double(num_frames * shape.patch_values() * patches), 1);
  counter.multiply("linear patches", num_frames * patches,
                   {.matrix = {.out = shape.hidden, .in = shape.patch_values()}}, 1);
  // The norms, attention and fc1 round what they write as the next product would.
  counter.move("norm", "LayerNorm<4>", 1.5 * row_bytes * as_double(rows), 2 * layers);
  counter.multiply("linear q, k, v", rows,
                   {.matrix = {.out = 3 * shape.hidden, .in = shape.hidden}, .takes_rounded = true},
                   layers);
  // Keys and values are rounded to 16 bits.
  counter.move("convert k, v", "Convert<4>", 1.5 * row_bytes * as_double(rows), 2 * layers);
  counter.attend({.operation = "attention",
                  .sequences = num_frames,
                  .new_tokens = tokens,
                  .keys = tokens,
                  .is_causal = false,
                  .heads = shape.num_heads,
                  .kv_heads = shape.num_heads,
                  .head_dim = shape.head_dim(),
                  .output_bytes = kWeightBytes},
                 layers);
  counter.multiply("linear_add out", rows,
                   {.matrix = {.out = shape.hidden, .in = shape.hidden}, .takes_rounded = true},
                   layers);
  const std::int64_t piece_rows = model::tower_piece_rows(Device::kCuda);
  for (std::int64_t first = 0; first < rows; first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, rows - first);
    counter.multiply("linear fc1", count,
                     {.matrix = {.out = shape.intermediate, .in = shape.hidden},
                      .takes_rounded = true,
                      .output_bytes = kWeightBytes},
                     layers);
    counter.multiply(
        "linear_add fc2", count,
        {.matrix = {.out = shape.hidden, .in = shape.intermediate}, .takes_rounded = true}, layers);
  }
  return counter.take();
}

}  // namespace caption::bench
