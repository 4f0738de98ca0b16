// bench/line_chart.h: writes a chart of a few lines as one SVG file without scripts or embedded
// fonts, legible on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace caption::bench {

struct Point {
  double x = 0;  // > 0
  double y = 0;  // >= 0
};

enum class LineStyle {
  kMeasured,  // a solid line with a mark at each point
  kBound,     // dashed, without marks
};

struct Line {
  std::string name;
  LineStyle style = LineStyle::kMeasured;
  std::vector<Point> points;  // sorted by ascending x
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

// The x axis is logarithmic to base 2 with a tick at every x of a line; the y axis is linear from
// 0. Text is escaped. Throws Error(kInternal) when there is no point, or for a point outside the
// ranges above.
std::string to_svg(const LineChart& chart);

}  // namespace caption::bench
