#include "bench/line_chart.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "bench/internal/svg_parts.h"

namespace caption::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 84;
constexpr double kRight = 28;
constexpr double kTop = 76;
constexpr double kLegendRow = 20;
constexpr double kBelow = 62;  // height of the ticks and the label of the x axis

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart) {
    double largest = 0;
    for (const Line& line : chart.lines) {
      for (const Point& point : line.points) {
        CAPTION_CHECK(
            std::isfinite(point.x) && point.x > 0 && std::isfinite(point.y) && point.y >= 0,
            "chart: a point that cannot be drawn");
        ticks_.insert(point.x);
        largest = std::max(largest, point.y);
      }
    }
    CAPTION_CHECK(!ticks_.empty(), "chart: there is no point");
    y_step_ = tick_step(largest > 0 ? largest : 1);
    y_end_ = y_step_ * std::max(1.0, std::ceil(largest / y_step_));
    const std::size_t legend_rows = (chart.lines.size() + 1) / 2;
    bottom_ = kHeight - kBelow - kLegendRow * static_cast<double>(legend_rows);
  }

  std::string draw() {
    svg_ = begin_svg(kWidth, kHeight, chart_.title);
    draw_text(kLeft, 30, chart_.title, "font-size=\"17\" font-weight=\"600\"");
    draw_text(kLeft, 52, chart_.subtitle, "font-size=\"12.5\" class=\"soft\"");
    draw_axes();
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_line(chart_.lines[i], i);
    draw_legend();
    return svg_ + "</svg>\n";
  }

 private:
  double x_of(double x) const {
    const double first = std::log2(*ticks_.begin());
    const double range = std::log2(*ticks_.rbegin()) - first;
    const double share = range > 0 ? (std::log2(x) - first) / range : 0.5;
    constexpr double kInset = 24;  // keeps marks off the axis
    return kLeft + kInset + share * (kWidth - kLeft - kRight - 2 * kInset);
  }
  double y_of(double y) const { return bottom_ - y / y_end_ * (bottom_ - kTop); }

  void draw_text(double x, double y, const std::string& text, const std::string& attributes) {
    svg_ += svg_text(x, y, text, attributes);
  }
  void draw_segment(double x1, double y1, double x2, double y2, const char* style) {
    svg_ += svg_segment(x1, y1, x2, y2, style);
  }

  void draw_axes() {
    for (double y = 0; y <= y_end_ * (1 + 1e-9); y += y_step_) {
      draw_segment(kLeft, y_of(y), kWidth - kRight, y_of(y), y == 0 ? "axis" : "grid");
      draw_text(kLeft - 10, y_of(y) + 4, json_number(y, 6),
                "font-size=\"12\" text-anchor=\"end\" class=\"soft\"");
    }
    for (const double x : ticks_) {
      draw_segment(x_of(x), bottom_, x_of(x), bottom_ + 5, "axis");
      draw_text(x_of(x), bottom_ + 20, json_number(x, 2),
                "font-size=\"12\" text-anchor=\"middle\" class=\"soft\"");
    }
    draw_text((kLeft + kWidth - kRight) / 2, bottom_ + 42, chart_.x_label,
              "font-size=\"13\" text-anchor=\"middle\"");
    const std::string middle = px((kTop + bottom_) / 2);
    draw_text(0, 0, chart_.y_label,
              "font-size=\"13\" text-anchor=\"middle\" transform=\"translate(22 " + middle +
                  ") rotate(-90)\"");
  }

  std::string stroke(const Line& line, std::size_t index) const {
    const bool is_bound = line.style == LineStyle::kBound;
    return "stroke=\"" + std::string(kSvgColours[index % kSvgColours.size()]) +
           "\" stroke-width=\"" + (is_bound ? "1.8" : "2.4") + "\" fill=\"none\"" +
           (is_bound ? " stroke-dasharray=\"7 5\"" : " stroke-linejoin=\"round\"");
  }

  // Draws a circle, a square or a diamond, depending on the index.
  void draw_mark(double x, double y, std::size_t index) {
    const std::string fill =
        "fill=\"" + std::string(kSvgColours[index % kSvgColours.size()]) + "\"/>\n";
    if (index % 3 == 0) {
      svg_ += "<circle cx=\"" + px(x) + "\" cy=\"" + px(y) + "\" r=\"4.5\" " + fill;
      return;
    }
    const std::string turned =
        index % 3 == 2 ? " transform=\"rotate(45 " + px(x) + " " + px(y) + ")\" " : " ";
    svg_ += "<rect x=\"" + px(x - 4) + "\" y=\"" + px(y - 4) + "\" width=\"8\" height=\"8\"" +
            turned + fill;
  }

  void draw_line(const Line& line, std::size_t index) {
    std::string points;
    for (const Point& point : line.points) {
      points += (points.empty() ? "" : " ") + px(x_of(point.x)) + "," + px(y_of(point.y));
    }
    svg_ += "<polyline points=\"" + points + "\" " + stroke(line, index) + "/>\n";
    if (line.style == LineStyle::kBound) return;
    for (const Point& point : line.points) draw_mark(x_of(point.x), y_of(point.y), index);
  }

  void draw_legend() {
    const double column = (kWidth - kLeft - kRight) / 2;
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
      const Line& line = chart_.lines[i];
      const double x = kLeft + column * static_cast<double>(i % 2);
      const std::size_t row = i / 2;
      const double y = bottom_ + kBelow + kLegendRow * static_cast<double>(row);
      svg_ += "<path d=\"M" + px(x) + " " + px(y) + "h30\" " + stroke(line, i) + "/>\n";
      if (line.style == LineStyle::kMeasured) draw_mark(x + 15, y, i);
      draw_text(x + 40, y + 4, line.name, "font-size=\"13\"");
    }
  }

  const LineChart& chart_;
  std::set<double> ticks_;
  double y_step_ = 1;
  double y_end_ = 1;
  double bottom_ = 0;
  std::string svg_;
};

}  // namespace

std::string to_svg(const LineChart& chart) { return Drawing(chart).draw(); }

}  // namespace caption::bench
