#include "bench/run_workload.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
#include "bench/process_memory.h"
#include "tensor/copy.h"

namespace caption::bench {
namespace {

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? as_double(count) / seconds : 0;
}

void summarise_latencies(const std::vector<engine::Completion>& completions,
                         Measurement& measurement) {
  std::vector<double> first_token_ms;
  std::vector<double> next_token_ms;
  std::vector<double> latency_ms;
  for (const engine::Completion& completion : completions) {
    const double first_ms = as_double(completion.first_token_us) / 1e3;
    const double total_ms = as_double(completion.total_us) / 1e3;
    const auto num_later = std::ssize(completion.output_ids) - 1;
    first_token_ms.push_back(first_ms);
    latency_ms.push_back(total_ms);
    if (num_later > 0) next_token_ms.push_back((total_ms - first_ms) / as_double(num_later));
  }
  measurement.first_token_ms = summarise(std::move(first_token_ms));
  measurement.next_token_ms = summarise(std::move(next_token_ms));
  measurement.latency_ms = summarise(std::move(latency_ms));
}

std::vector<SequenceLengths> lengths_of(const std::vector<engine::Completion>& completions) {
  std::vector<SequenceLengths> lengths;
  for (const engine::Completion& completion : completions) {
    lengths.push_back({.prompt_tokens = completion.prompt_tokens,
                       .cached_tokens = completion.cached_tokens,
                       .output_tokens = std::ssize(completion.output_ids)});
  }
  return lengths;
}

// Gives every request the output length of the longest one in its batch.
Workload pad_batches(const Workload& workload, std::int64_t batch) {
  Workload padded = workload;
  auto& requests = padded.requests;
  for (auto begin = requests.begin(); begin != requests.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(batch, requests.end() - begin);
    const auto longest = std::max_element(
        begin, end, [](const auto& a, const auto& b) { return a.output_tokens < b.output_tokens; });
    const std::int64_t output_tokens = longest->output_tokens;
    for (; begin != end; ++begin) begin->output_tokens = output_tokens;
  }
  return padded;
}

// Attaches a profile to the stream for its lifetime.
class Timed {
 public:
  Timed(Stream& stream, Profile* profile) : stream_(stream) { stream_.set_profile(profile); }
  ~Timed() { stream_.set_profile(nullptr); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Stream& stream_;
};

// Copies vision tokens to a device that is not the host's; requests that shared them share the
// copy.
void place_vision(Stream& stream, std::vector<engine::Request>& requests) {
  if (stream.device() == Device::kCpu) return;
  std::unordered_map<const Tensor*, std::shared_ptr<const Tensor>> placed;
  for (engine::Request& request : requests) {
    if (request.vision == nullptr) continue;
    std::shared_ptr<const Tensor>& copy = placed[request.vision.get()];
    if (copy == nullptr) {
      copy =
          std::make_shared<const Tensor>(copy_to(stream, stream.device(), request.vision->view()));
    }
    request.vision = copy;
  }
}

Measurement measure(model::Decoder& decoder, Stream& stream, const DecoderCosts& costs,
                    const Workload& workload, const Variant& variant,
                    const CompareOptions& options) {
  const bool is_padded = variant.ended_rows == EndedRows::kPadded;
  std::vector<engine::Request> requests =
      make_requests(is_padded ? pad_batches(workload, variant.options.max_num_seqs) : workload,
                    decoder.spec(), options.seed);
  place_vision(stream, requests);
  reset_peak_memory();
  engine::Engine engine(decoder, stream, variant.options);
  std::vector<engine::Completion> completions;
  Profile profile;
  const Timed timed(stream, options.has_profile ? &profile : nullptr);
  const Stopwatch stopwatch;
  for (engine::Request& request : requests) submit(engine, std::move(request));
  while (!engine.idle()) {
    for (engine::Completion& completion : engine.step()) {
      completions.push_back(std::move(completion));
    }
  }
  Measurement measurement;
  measurement.seconds = as_double(stopwatch.elapsed_us()) / 1e6;
  measurement.peak_bytes = peak_bytes(stream.device());
  measurement.stats = engine.stats();
  measurement.needed_bytes = model::placed_bytes(stream.context(), costs.model, costs.weights) +
                             measurement.stats.pages_peak * measurement.stats.page_bytes;
  if (options.has_profile) {
    measurement.operations =
        name_operations(profile.entries(), named_matrices(costs.model.text.value()),
                        as_double(measurement.stats.busy_us) / 1e6);
  }
  measurement.num_requests = std::ssize(completions);
  std::sort(completions.begin(), completions.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  Hasher hasher;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    engine::Completion& completion = completions[i];
    if (is_padded && std::ssize(completion.output_ids) > workload.requests[i].output_tokens) {
      completion.output_ids.resize(static_cast<std::size_t>(workload.requests[i].output_tokens));
    }
    measurement.prompt_tokens += completion.prompt_tokens;
    measurement.output_tokens += std::ssize(completion.output_ids);
    const bool is_whole = std::ssize(completion.output_ids) == workload.requests[i].output_tokens;
    if (!is_whole || completion.error.has_value()) ++measurement.num_cut_short;
    hasher.update(std::as_bytes(std::span(completion.output_ids)));
  }
  measurement.output_hash = hasher.digest();
  summarise_latencies(completions, measurement);
  measurement.cost =
      cost_of_run(costs, variant.options.kv_dtype, lengths_of(completions), measurement.stats);
  return measurement;
}

// Runs a short workload, so that the weights are mapped and the threads have started.
void warm_up(model::Decoder& decoder, Stream& stream, const Variant& variant) {
  const std::int64_t prompt_tokens = std::min<std::int64_t>(16, decoder.spec().max_positions / 2);
  std::vector<engine::Request> requests =
      make_requests(make_fixed_workload(1, prompt_tokens, 2), decoder.spec(), 1);
  engine::Engine engine(decoder, stream, variant.options);
  submit(engine, std::move(requests.front()));
  while (!engine.idle()) engine.step();
}

// Returns the run of median throughput.
std::size_t find_median_run(const std::vector<Measurement>& runs) {
  std::vector<double> speeds;
  for (const Measurement& run : runs) speeds.push_back(run.output_tokens_per_s());
  return median_index(speeds);
}

}  // namespace

double Measurement::output_tokens_per_s() const { return per_second(output_tokens, seconds); }
double Measurement::prompt_tokens_per_s() const { return per_second(prompt_tokens, seconds); }
double Measurement::requests_per_s() const { return per_second(num_requests, seconds); }

double Comparison::read_bytes_per_s() const {
  return (before.read_bytes_per_s + after.read_bytes_per_s) / 2;
}

Peak Comparison::peak() const { return mean_peak(before, after, operands_of(costs.weights)); }

bool Comparison::outputs_are_equal() const {
  for (const VariantResult& result : variants) {
    for (const Measurement& run : result.runs) {
      if (run.output_hash != variants.front().runs.front().output_hash) return false;
    }
  }
  return true;
}

Comparison compare(model::Decoder& decoder, Stream& stream, const DecoderCosts& costs,
                   const Workload& workload, const std::vector<Variant>& variants,
                   const CompareOptions& options) {
  CAPTION_CHECK(!variants.empty() && options.repeat >= 1, "compare: nothing to run");
  CAPTION_CHECK(!workload.requests.empty(), "compare: a workload without requests");
  Comparison comparison{.workload = workload,
                        .costs = costs,
                        .variants = {},
                        .before = measure_roofline(stream, options.roofline),
                        .after = {}};
  for (const Variant& variant : variants) {
    comparison.variants.push_back({.variant = variant, .runs = {}, .median_run = 0});
  }
  warm_up(decoder, stream, variants.front());
  for (int round = 0; round < options.repeat; ++round) {
    for (VariantResult& result : comparison.variants) {
      if (options.on_run) {
        options.on_run(result.variant.name + ", run " + std::to_string(round + 1) + " of " +
                       std::to_string(options.repeat));
      }
      result.runs.push_back(measure(decoder, stream, costs, workload, result.variant, options));
    }
  }
  for (VariantResult& result : comparison.variants) {
    result.median_run = find_median_run(result.runs);
  }
  comparison.after = measure_roofline(stream, options.roofline);
  return comparison;
}

}  // namespace caption::bench
