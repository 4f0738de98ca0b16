// bench/scatter_chart.h: writes a chart of labelled points as one SVG file without scripts or
// embedded fonts, legible on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace caption::bench {

struct LabelledPoint {
  double x = 0;  // >= 0
  double y = 0;  // >= 0
  std::string label = {};
  bool is_filled = true;   // a disc; otherwise a circle
  bool is_ringed = false;  // whether it has a second circle around it
};

struct ScatterChart {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<LabelledPoint> points;
  std::vector<std::string> notes;  // lines below the chart, such as what the marks mean
};

// Both axes are linear, y from 0, x from 0 or, where every x is more than half of the largest, from
// a tick below the smallest. Labels stand beside the chart; a line leads from each point to its
// own. Text is escaped. Throws Error(kInternal) when there is no point, or for a point outside the
// ranges above.
std::string to_svg(const ScatterChart& chart);

}  // namespace caption::bench
