// tests/cuda/paged_batches.h: steps of paged attention on the emulated GPU. What a kernel must not
// read holds poison: NaN in slots that no token has, and far too large pages in entries of block
// tables that are past a sequence's context or before the window of its first row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/cuda/attend.h"
#include "kernels/paged_attention.h"
#include "tests/cuda/testing.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/paged_cache.h"

namespace caption::testing {

struct PagedOptions {
  DType dtype = DType::kF32;
  std::int64_t page_tokens = 16;
  std::int64_t window = 0;
  DType y_dtype = DType::kF32;
  int compute_capability = 0;  // that of the emulated device
  cuda_emulator::Options emulation = {};
  std::string* waste = nullptr;  // gets the lines of describe_waste(1.05)
};

// How a kernel multiplies keys of a dtype with heads of a dimension.
inline kernels::cuda::AttendParams operands_of(DType dtype, std::int64_t head_dim) {
  kernels::cuda::AttendParams params;
  params.kv_dtype = dtype;
  params.head_dim = static_cast<int>(head_dim);
  params.kv_stride = head_dim;
  return params;
}

// attend_exactly() for the kernels of attention: its order of sums, and on tensor cores its
// roundings. There q has to be rounded already; y is of values of at most 1 in magnitude, so that a
// relative error of all probabilities is an absolute one of y.
//   A tensor core cuts its products and sum at 2^-24 of the largest, for each 8 of them: at most
//   11 / 8 roundings per product, which with twice the tolerance of f32 is covered. An exponential
//   is within 2^-18, and so is each correction by a new maximum. A probability is at most 1 beside
//   a sum of at least 1; it is rounded by 2^-9 of itself to bf16 (Rounding::kBF16 allows twice as
//   much), to f16 by 2^-12 or, below 2^-14, by 2^-25.
inline void attend_as_kernel(const double* q, const std::vector<const double*>& k,
                             const std::vector<const double*>& v,
                             const kernels::cuda::AttendParams& params, double scale,
                             std::vector<double>& y, std::vector<double>& tolerance) {
  if (!kernels::cuda::attends_tiles(params)) {
    attend_exactly(q, k, v, params.head_dim, scale, y, tolerance, Rounding::kF32,
                   {.step_keys = 32, .split_keys = 256});
    return;
  }
  const bool is_f16 = params.kv_dtype == DType::kF16;
  const std::size_t first = tolerance.size();
  attend_exactly(q, k, v, params.head_dim, scale, y, tolerance,
                 is_f16 ? Rounding::kF32 : Rounding::kBF16, {.step_keys = 64, .split_keys = 256});
  const auto num_keys = static_cast<double>(k.size());
  const double exponentials = (4 + 2 * std::ceil(num_keys / 64)) * 0x1p-18;
  const double rounding = is_f16 ? 0x1p-12 + num_keys * 0x1p-25 : 0.0;
  for (std::size_t i = first; i < tolerance.size(); ++i) {
    tolerance[i] = 2 * tolerance[i] + exponentials + rounding;
  }
}

// q as the kernel multiplies it.
inline std::vector<double> queries_of_kernel(const Tensor& q,
                                             const kernels::cuda::AttendParams& params) {
  if (!kernels::cuda::attends_tiles(params)) return values(q);
  return values(converted(q, params.kv_dtype == DType::kF16 ? DType::kF16 : DType::kBF16));
}

// What a step calls: paged_attention(), or the kernel's other ways to the same result.
using PagedAttention =
    std::function<void(Stream&, ConstView, const kernels::PagedContext&, float, View)>;

class PagedBatches {
 public:
  PagedBatches(const PagedModel& model, const PagedOptions& options, PagedAttention attention)
      : model_(model), options_(options), attention_(std::move(attention)) {
    std::int64_t num_pages = 1;
    for (const std::int64_t length : model.lengths) {
      const std::int64_t pages = (length + options.page_tokens - 1) / options.page_tokens;
      max_pages_ = std::max(max_pages_, pages);
      first_page_.push_back(num_pages);
      num_pages += pages + 1;
      out_.emplace_back(options.y_dtype, Shape{length, model.heads, model.head_dim});
    }
    done_.resize(model.lengths.size(), 0);
    num_pages_ = num_pages;
  }

  // The next counts[s] tokens of each sequence in one ragged batch.
  void step(const std::vector<std::int64_t>& counts) {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Tensor q(DType::kF32, {total, model_.heads, model_.head_dim});
    std::vector<std::int32_t> cu{0}, lens, tables;
    const std::size_t row_bytes = static_cast<std::size_t>(model_.heads * model_.head_dim) * 4;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      std::memcpy(reinterpret_cast<std::byte*>(q.as<float>()) +
                      static_cast<std::size_t>(cu.back()) * row_bytes,
                  reinterpret_cast<const std::byte*>(model_.q[s].as<float>()) +
                      static_cast<std::size_t>(done_[s]) * row_bytes,
                  static_cast<std::size_t>(counts[s]) * row_bytes);
      cu.push_back(cu.back() + static_cast<std::int32_t>(counts[s]));
      lens.push_back(static_cast<std::int32_t>(done_[s] + counts[s]));
      append_table(s, lens.back(), tables);
    }
    const Pages pages(*this, lens);
    const std::int64_t row = model_.heads * model_.head_dim;
    const std::int64_t more = options_.waste == nullptr ? 3 : 0;  // elements between rows
    const DeviceTensor device_q(q, row + more);
    const DeviceTensor device_cu(indices(cu));
    const DeviceTensor device_lens(indices(lens));
    const DeviceTensor device_tables(indices(tables));
    const DeviceTensor y(options_.y_dtype, q.shape(), row + more);
    const auto seqs = static_cast<std::int64_t>(counts.size());
    const kernels::PagedContext context{
        .k_pages = pages.k->view(),
        .v_pages = pages.v->view(),
        .cu_seqlens = device_cu.view(),
        .context_lens = device_lens.view(),
        .block_tables = device_tables.view().reshape({seqs, max_pages_}),
        .k_scales = pages.k_scales ? pages.k_scales->view() : View(),
        .v_scales = pages.v_scales ? pages.v_scales->view() : View(),
        .window = options_.window};
    {
      cuda_emulator::Options emulated = options_.emulation;
      emulated.counts_costs = options_.waste != nullptr;
      const cuda_emulator::Emulation emulation(emulated);
      ThreadPool pool(1);
      Stream stream(
          Context{.device = Device::kCuda, .compute_capability = options_.compute_capability},
          pool);
      attention_(stream, device_q.view(), context, model_.scale(), y.view());
      stream.synchronize();
      CHECK(emulation.report().describe_faults() == "");
      if (options_.waste != nullptr) *options_.waste += emulation.report().describe_waste(1.05);
    }
    keep(y.to_host(), cu, counts);
  }

  // The next counts[s] tokens of each sequence are in its pages, and nobody asks for their rows.
  void skip(const std::vector<std::int64_t>& counts) {
    for (std::size_t s = 0; s < counts.size(); ++s) done_[s] += counts[s];
  }

  // The rows of the steps so far; nobody has written the others.
  std::vector<Tensor> rows() && { return std::move(out_); }
  // All prompts in one step.
  std::vector<Tensor> whole() && {
    step(model_.lengths);
    return std::move(out_);
  }
  // A token of each sequence at a time.
  std::vector<Tensor> decoded() && {
    while (has_more()) step(limited(std::vector<std::int64_t>(done_.size(), 1)));
    return std::move(out_);
  }
  // Chunks whose lengths differ between steps and sequences, among them 0 and 1.
  std::vector<Tensor> chunked() && {
    constexpr std::int64_t kChunks[] = {3, 1, 0, 17, 90, 40, 1, 2, 250};
    for (std::size_t i = 0; has_more(); ++i) {
      std::vector<std::int64_t> counts;
      for (std::size_t s = 0; s < done_.size(); ++s) {
        counts.push_back(kChunks[(i + 2 * s) % std::size(kChunks)]);
      }
      step(limited(counts));
    }
    return std::move(out_);
  }

 private:
  // Pages as they are after a step, on the device.
  struct Pages {
    Pages(const PagedBatches& of, const std::vector<std::int32_t>& lens) {
      const PagedModel& model = of.model_;
      const Shape shape{of.num_pages_, of.options_.page_tokens, model.kv_heads, model.head_dim};
      const bool has_scales = of.options_.dtype == DType::kI8;
      Tensor host_k = poisoned(of.options_.dtype, shape);
      Tensor host_v = poisoned(of.options_.dtype, shape);
      Tensor host_k_scales = poisoned(DType::kBF16, {shape[0], shape[1], shape[2]});
      Tensor host_v_scales = poisoned(DType::kBF16, {shape[0], shape[1], shape[2]});
      const kernels::KvLayer layer{.k = host_k.view(),
                                   .v = host_v.view(),
                                   .k_scales = has_scales ? host_k_scales.view() : View(),
                                   .v_scales = has_scales ? host_v_scales.view() : View()};
      run_on_cpu([&](Stream& stream) {
        for (std::size_t s = 0; s < lens.size(); ++s) {
          const std::int64_t first = of.first_needed(s);
          std::vector<std::int32_t> slots;
          for (std::int64_t p = first; p < lens[s]; ++p) slots.push_back(of.slot(s, p));
          kernels::kv_write(stream, model.k[s].view().rows(first, lens[s] - first),
                            model.v[s].view().rows(first, lens[s] - first), indices(slots).view(),
                            layer);
        }
      });
      k.emplace(host_k);
      v.emplace(host_v);
      if (!has_scales) return;
      k_scales.emplace(host_k_scales);
      v_scales.emplace(host_v_scales);
    }
    static Tensor poisoned(DType dtype, const Shape& shape) {
      if (dtype == DType::kI8) return Tensor::zeros(dtype, shape);
      Tensor nans(DType::kF32, shape);
      std::fill_n(nans.as<float>(), nans.num_elements(), std::numeric_limits<float>::quiet_NaN());
      return converted(nans, dtype);
    }
    std::optional<DeviceTensor> k, v, k_scales, v_scales;
  };

  // The first position that the next row of a sequence sees.
  std::int64_t first_needed(std::size_t s) const {
    return options_.window == 0 ? 0 : std::max<std::int64_t>(0, done_[s] + 1 - options_.window);
  }
  // Pages of a sequence descend, so that no two are adjacent in the order of positions.
  std::int32_t slot(std::size_t s, std::int64_t position) const {
    const std::int64_t pages =
        (model_.lengths[s] + options_.page_tokens - 1) / options_.page_tokens;
    const std::int64_t page = first_page_[s] + pages - 1 - position / options_.page_tokens;
    return static_cast<std::int32_t>(page * options_.page_tokens + position % options_.page_tokens);
  }
  void append_table(std::size_t s, std::int64_t length, std::vector<std::int32_t>& tables) const {
    constexpr std::int32_t kPoison = 1 << 24;
    for (std::int64_t i = 0; i < max_pages_; ++i) {
      const std::int64_t first = i * options_.page_tokens;
      const bool is_used = first < length && first + options_.page_tokens > first_needed(s);
      tables.push_back(is_used ? static_cast<std::int32_t>(slot(s, first) / options_.page_tokens)
                               : kPoison);
    }
  }
  bool has_more() const { return done_ != model_.lengths; }
  std::vector<std::int64_t> limited(std::vector<std::int64_t> counts) const {
    for (std::size_t s = 0; s < counts.size(); ++s) {
      counts[s] = std::min(counts[s], model_.lengths[s] - done_[s]);
    }
    return counts;
  }
  void keep(const Tensor& y, const std::vector<std::int32_t>& cu,
            const std::vector<std::int64_t>& counts) {
    const std::size_t row_bytes =
        static_cast<std::size_t>(model_.heads * model_.head_dim) * dtype_size_bytes(y.dtype());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      std::memcpy(static_cast<std::byte*>(out_[s].view().raw()) +
                      static_cast<std::size_t>(done_[s]) * row_bytes,
                  static_cast<const std::byte*>(y.view().raw()) +
                      static_cast<std::size_t>(cu[s]) * row_bytes,
                  static_cast<std::size_t>(counts[s]) * row_bytes);
      done_[s] += counts[s];
    }
  }

  const PagedModel& model_;
  PagedOptions options_;
  PagedAttention attention_;
  std::int64_t max_pages_ = 1;
  std::int64_t num_pages_ = 1;
  std::vector<std::int64_t> first_page_;
  std::vector<std::int64_t> done_;
  std::vector<Tensor> out_;
};

}  // namespace caption::testing
