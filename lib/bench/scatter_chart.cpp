#include "bench/scatter_chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/error.h"
#include "base/json.h"
#include "bench/internal/svg_parts.h"

namespace caption::bench {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 500;
constexpr double kLeft = 84;
constexpr double kRight = 272;  // includes kLabelRoom for the labels
constexpr double kTop = 76;
constexpr double kBelow = 62;    // height of the ticks and the label of the x axis
constexpr double kNoteRow = 18;  // height of a line below the chart
constexpr double kLabelRoom = 236;
constexpr double kLabelHeight = 17;
constexpr double kMarkRadius = 5;
constexpr double kRingRadius = 9;
constexpr double kLineGap = 4;  // distance from a line's end to its label

class Scatter {
 public:
  explicit Scatter(const ScatterChart& chart) : chart_(chart) {
    CAPTION_CHECK(!chart.points.empty(), "chart: there is no point");
    double x = 0;
    double least_x = chart.points.front().x;
    double y = 0;
    for (const LabelledPoint& point : chart.points) {
      CAPTION_CHECK(
          std::isfinite(point.x) && point.x >= 0 && std::isfinite(point.y) && point.y >= 0,
          "chart: a point that cannot be drawn");
      x = std::max(x, point.x);
      least_x = std::min(least_x, point.x);
      y = std::max(y, point.y);
    }
    if (least_x <= x / 2 || least_x == x) least_x = 0;
    x_step_ = tick_step(x > 0 ? x - least_x : 1);
    x_begin_ = x_step_ * std::floor(least_x / x_step_);
    y_step_ = tick_step(y > 0 ? y : 1);
    x_end_ = std::max(x_begin_ + x_step_, x_step_ * std::ceil(x / x_step_));
    y_end_ = y_step_ * std::max(1.0, std::ceil(y / y_step_));
    bottom_ = kHeight - kBelow - kNoteRow * static_cast<double>(chart.notes.size());
  }

  std::string draw() {
    svg_ = begin_svg(kWidth, kHeight, chart_.title);
    svg_ += svg_text(kLeft, 30, chart_.title, "font-size=\"17\" font-weight=\"600\"");
    svg_ += svg_text(kLeft, 52, chart_.subtitle, "font-size=\"12.5\" class=\"soft\"");
    draw_axes();
    draw_labels();
    for (const LabelledPoint& point : chart_.points) draw_mark(point);
    double y = bottom_ + kBelow;
    for (const std::string& note : chart_.notes) {
      svg_ += svg_text(kLeft, y, note, "font-size=\"12\" class=\"soft\"");
      y += kNoteRow;
    }
    return svg_ + "</svg>\n";
  }

 private:
  double x_of(double x) const {
    return kLeft + (x - x_begin_) / (x_end_ - x_begin_) * (kWidth - kLeft - kRight);
  }
  double y_of(double y) const { return bottom_ - y / y_end_ * (bottom_ - kTop); }

  void draw_axes() {
    for (double y = 0; y <= y_end_ * (1 + 1e-9); y += y_step_) {
      svg_ += svg_segment(kLeft, y_of(y), kWidth - kRight, y_of(y), y == 0 ? "axis" : "grid");
      svg_ += svg_text(kLeft - 10, y_of(y) + 4, json_number(y, 6),
                       "font-size=\"12\" text-anchor=\"end\" class=\"soft\"");
    }
    for (double x = x_begin_; x <= x_end_ * (1 + 1e-9); x += x_step_) {
      svg_ += svg_segment(x_of(x), kTop, x_of(x), bottom_ + 5, x == x_begin_ ? "axis" : "grid");
      svg_ += svg_text(x_of(x), bottom_ + 20, json_number(x, 6),
                       "font-size=\"12\" text-anchor=\"middle\" class=\"soft\"");
    }
    svg_ += svg_text((kLeft + kWidth - kRight) / 2, bottom_ + 42, chart_.x_label,
                     "font-size=\"13\" text-anchor=\"middle\"");
    svg_ += svg_text(0, 0, chart_.y_label,
                     "font-size=\"13\" text-anchor=\"middle\" transform=\"translate(22 " +
                         px((kTop + bottom_) / 2) + ") rotate(-90)\"");
  }

  void draw_circle(const LabelledPoint& point, double radius, bool is_filled) {
    const std::string colour = kSvgColours[point.is_filled ? 0 : 1];
    svg_ += "<circle cx=\"" + px(x_of(point.x)) + "\" cy=\"" + px(y_of(point.y)) + "\" r=\"" +
            px(radius) + "\" stroke=\"" + colour + "\" stroke-width=\"1.8\" fill=\"" +
            (is_filled ? colour : "none") + "\"/>\n";
  }

  void draw_mark(const LabelledPoint& point) {
    draw_circle(point, kMarkRadius, point.is_filled);
    if (point.is_ringed) draw_circle(point, kRingRadius, false);
  }

  // Labels stand below one another beside the chart, in the order of their points from the top, so
  // that lines cross little; a line leads from each point to its label.
  void draw_labels() {
    std::vector<const LabelledPoint*> points;
    for (const LabelledPoint& point : chart_.points) points.push_back(&point);
    std::stable_sort(points.begin(), points.end(), [](const auto* a, const auto* b) {
      return a->y != b->y ? a->y > b->y : a->x > b->x;
    });
    std::vector<double> heights;  // y of each label's middle, as near its point as there is room
    for (const LabelledPoint* const point : points) {
      const double least = heights.empty() ? kTop : heights.back() + kLabelHeight;
      heights.push_back(std::max(least, y_of(point->y)));
    }
    double most = bottom_;
    for (auto height = heights.rbegin(); height != heights.rend(); ++height) {
      *height = std::min(*height, most);
      most = *height - kLabelHeight;
    }
    const double x = kWidth - kLabelRoom;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double radius = points[i]->is_ringed ? kRingRadius : kMarkRadius;
      svg_ += svg_segment(x_of(points[i]->x) + radius, y_of(points[i]->y), x - kLineGap, heights[i],
                          "grid");
      svg_ += svg_text(
          x, heights[i] + 4, points[i]->label,
          std::string("font-size=\"12.5\"") + (points[i]->is_ringed ? " font-weight=\"600\"" : ""));
    }
  }

  const ScatterChart& chart_;
  double x_begin_ = 0;
  double x_step_ = 1;
  double y_step_ = 1;
  double x_end_ = 1;
  double y_end_ = 1;
  double bottom_ = 0;
  std::string svg_;
};

}  // namespace

std::string to_svg(const ScatterChart& chart) { return Scatter(chart).draw(); }

}  // namespace caption::bench
