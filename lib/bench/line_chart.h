// bench/line_chart.h: a chart of a few lines as SVG, written by hand: one file, no scripts, no
// fonts of its own, legible on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace caption::bench {

struct Point {
  double x = 0;  // > 0
  double y = 0;  // >= 0
};

enum class LineStyle {
  kMeasured,  // drawn through, a mark at each point
  kBound,     // dashed, without marks
};

struct Line {
  std::string name;
  LineStyle style = LineStyle::kMeasured;
  std::vector<Point> points;  // by ascending x
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

// x is logarithmic to base 2 with a tick at every x that a line has, y is linear from 0. Text is
// escaped. Throws Error(kInternal) when there is no point, or one that cannot be drawn.
std::string to_svg(const LineChart& chart);

}  // namespace caption::bench
