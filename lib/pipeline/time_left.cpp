#include "pipeline/time_left.h"

#include <algorithm>
#include <cmath>

namespace caption::pipeline {
namespace {

double ratio(std::int64_t sum, double count) {
  return count > 0 ? static_cast<double>(sum) / count : 0;
}

}  // namespace

double time_needed_us(const StageCosts& costs, const WorkLeft& left, int num_decode_threads) {
  const double rounds = std::ceil(left.clips_to_read / num_decode_threads);
  return std::max({rounds * costs.read_us, left.clips_to_encode * costs.vision_us,
                   left.captions * costs.engine_us});
}

std::optional<double> time_left_us(const Progress& progress) {
  const StageWork& work = progress.work;
  if (progress.clips_total <= progress.clips_done) return std::nullopt;
  if (work.clips_read == 0 || work.clips_encoded == 0 || work.captions_made <= 0) {
    return std::nullopt;
  }
  // Records that needed no caption are included: they cost the engine nothing and lower the mean.
  const double num_ended = static_cast<double>(progress.clips_done) + work.captions_begun;
  const double replicas = work.num_replicas;
  const StageCosts costs = {
      .read_us =
          ratio(work.busy.identity_us, static_cast<double>(work.clips_looked_at)) +
          ratio(work.busy.decode_us + work.busy.cache_us, static_cast<double>(work.clips_read)),
      .vision_us = ratio(work.busy.vision_us, static_cast<double>(work.clips_encoded)) / replicas,
      .engine_us = ratio(work.busy.engine_us, num_ended) / replicas};
  const auto to_read = static_cast<double>(work.num_inputs - work.clips_looked_at);
  const WorkLeft left = {
      .clips_to_read = to_read,
      .clips_to_encode = to_read + static_cast<double>(work.clips_read - work.clips_encoded),
      .captions = std::max(0.0, static_cast<double>(progress.clips_total) - num_ended)};
  return time_needed_us(costs, left, work.num_decode_threads);
}

std::string duration_text(double us) {
  const auto seconds = std::max<std::int64_t>(std::llround(us / 1e6), 1);
  if (seconds < 60) return std::to_string(seconds) + " s";
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  const std::string rest = std::to_string(minutes % 60);
  return std::to_string(minutes / 60) + " h " + (rest.size() < 2 ? "0" : "") + rest + " min";
}

}  // namespace caption::pipeline
