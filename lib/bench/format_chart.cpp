#include "bench/format_chart.h"

#include <vector>

#include "base/counted.h"
#include "base/figures.h"
#include "base/join.h"
#include "base/units.h"

namespace caption::bench {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kMegabyte = 1e6;

}  // namespace

ScatterChart format_chart(const plan::FormatReport& report) {
  const plan::PlanInput& input = report.rows.front().plan.input;
  const bool is_small =
      report.rows.front().cost.memory_bytes < 2 * static_cast<std::int64_t>(kGigabyte);
  ScatterChart chart;
  chart.title = "Formats of " + input.model.name;
  chart.subtitle = input.device_name + ", " +
                   counted(input.max_num_seqs / input.num_beams, "video") + " at a time, " +
                   format_bytes(report.rows.front().plan.usable_bytes) + " may be used";
  chart.x_label = std::string("memory of a run, ") + (is_small ? "MB" : "GB");
  chart.y_label = "videos/s, at most";
  std::vector<std::string> too_large;
  for (const plan::FormatRow& row : report.rows) {
    if (!row.cost.fits) {
      too_large.push_back(row.cost.name);
      continue;
    }
    chart.points.push_back(
        {.x = static_cast<double>(row.cost.memory_bytes) / (is_small ? kMegabyte : kGigabyte),
         .y = row.cost.videos_per_s,
         .label = row.cost.name +
                  (row.price ? ", KL " + format_number(row.price->mean_kl, 2) : std::string()),
         .is_filled = row.is_on_front,
         .is_ringed = &row == report.chosen()});
  }
  if (chart.points.empty()) chart.points.push_back({.label = "no format fits"});
  chart.notes.emplace_back(
      "discs: on the Pareto front of memory, speed and KL; circles: not; the ring: chosen");
  chart.notes.emplace_back(report.prices ? "KL: nats a token against f32, measured over " +
                                               counted(report.prices->table.positions, "position") +
                                               plan::made_positions_text(report)
                                         : std::string("KL is not measured for this model"));
  if (!too_large.empty()) chart.notes.push_back("not fitting: " + join(too_large));
  return chart;
}

}  // namespace caption::bench
