#include "bench/internal/decoding.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/math.h"
#include "bench/statistics.h"

namespace caption::bench {

engine::RequestId submit(engine::Engine& engine, engine::Request request) {
  try {
    return engine.submit(std::move(request));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTooLong) throw;
    const std::string message = error.what();
    throw Error(ErrorCode::kUsage,
                message.substr(0, message.rfind(';')) +
                    "; raise --kv-cache-bytes, or make the workload's requests shorter");
  }
}

Decoding decode_together(
    engine::Engine& engine, std::vector<engine::Request> requests,
    const std::function<void(std::int64_t, const engine::Request&)>& on_submit) {
  std::int64_t prompt_tokens = engine.stats().prefill_tokens;
  for (const engine::Request& request : requests) prompt_tokens += std::ssize(request.prompt_ids);
  for (const engine::Request& request : requests) {
    const engine::RequestId id = submit(engine, request);
    if (on_submit) on_submit(static_cast<std::int64_t>(id), request);
  }
  while (engine.stats().prefill_tokens < prompt_tokens) engine.step();
  const engine::EngineStats before = engine.stats();
  Decoding decoding;
  std::vector<engine::Completion> completions;
  const Stopwatch watch;
  while (completions.empty()) completions = engine.step();
  decoding.seconds = as_double(watch.elapsed_us()) / 1e6;
  const engine::EngineStats after = engine.stats();
  decoding.num_steps = after.steps - before.steps;
  decoding.num_tokens = after.decode_tokens - before.decode_tokens;
  decoding.num_accepted = after.accepted_tokens - before.accepted_tokens;
  while (!engine.idle()) {
    for (engine::Completion& completion : engine.step()) {
      completions.push_back(std::move(completion));
    }
  }
  std::sort(completions.begin(), completions.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (engine::Completion& completion : completions) {
    if (completion.error.has_value()) throw Error(*completion.error);
    decoding.outputs.push_back(std::move(completion.output_ids));
  }
  return decoding;
}

std::string describe_scatter(const std::vector<std::pair<std::int32_t, double>>& plain) {
  std::map<std::int32_t, std::vector<double>> speeds;
  for (const auto& [batch, speed] : plain) speeds[batch].push_back(speed);
  double least = 1;
  double most = 1;
  for (const auto& [batch, of_batch] : speeds) {
    const double usual = median(of_batch);
    for (const double speed : of_batch) {
      if (usual <= 0) continue;
      least = std::min(least, speed / usual);
      most = std::max(most, speed / usual);
    }
  }
  if (least == most) return {};
  return "\nscatter: the same work without drafts ran at " + format_number(least, 2) + " to " +
         format_number(most, 2) +
         " of its median speed, and ratios scatter as much; --repeat N gives medians\n";
}

}  // namespace caption::bench
