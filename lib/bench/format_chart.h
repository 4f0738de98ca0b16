// bench/format_chart.h: draws the formats of a model's weights as points of speed over memory.
#pragma once

#include "bench/scatter_chart.h"
#include "plan/format_report.h"

namespace caption::bench {

// Formats on the Pareto front are discs, the others circles; the chosen one has a ring; labels hold
// the measured KL. Formats that do not fit are named below the chart. The report has one row or
// more; if none fits, the chart has a point at 0.
ScatterChart format_chart(const plan::FormatReport& report);

}  // namespace caption::bench
