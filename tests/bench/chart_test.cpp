#include "bench/line_chart.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/scatter_chart.h"

namespace caption::bench {
namespace {

// Whether tags are nested correctly, attributes are quoted and every & begins an entity; sufficient
// for the XML that the chart writes.
bool is_well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::size_t end = text.find(';', at);
    if (end == std::string::npos || end - at > 6) return false;
  }
  return open.empty();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

LineChart make_chart() {
  return {.title = "tokens & <seconds>",
          .subtitle = "\"quoted\"",
          .x_label = "batch",
          .y_label = "tok/s",
          .lines = {{.name = "a < b", .points = {{1, 10}, {2, 18}, {16, 40}}},
                    {.name = "bound", .style = LineStyle::kBound, .points = {{1, 20}, {16, 95}}}}};
}

TEST_SUITE("bench/line_chart") {
  TEST_CASE("a chart is well-formed SVG with its text escaped") {
    const std::string svg = to_svg(make_chart());
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(is_well_formed(svg));
    CHECK(svg.find("tokens &amp; &lt;seconds&gt;") != std::string::npos);
    CHECK(svg.find("prefers-color-scheme:dark") != std::string::npos);
  }

  TEST_CASE("every line, tick, label and legend entry is there") {
    const std::string svg = to_svg(make_chart());
    CHECK(count(svg, "<polyline") == 2);
    CHECK(count(svg, "<circle") == 4);  // three points and the legend; a bound has no marks
    CHECK(count(svg, ">16</text>") == 1);
    CHECK(count(svg, ">batch</text>") == 1);
    CHECK(count(svg, ">tok/s</text>") == 1);
    CHECK(count(svg, ">bound</text>") == 1);
  }

  TEST_CASE("one point, and a rate of zero, can be drawn") {
    LineChart chart = make_chart();
    chart.lines = {{.name = "one", .points = {{4, 0}}}};
    const std::string svg = to_svg(chart);
    CHECK(is_well_formed(svg));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
  }

  TEST_CASE("what cannot be drawn is refused") {
    LineChart chart = make_chart();
    chart.lines = {};
    CHECK_THROWS_AS(to_svg(chart), Error);
    chart.lines = {{.name = "x", .points = {{0, 1}}}};
    CHECK_THROWS_AS(to_svg(chart), Error);
  }
}

TEST_SUITE("bench/scatter_chart") {
  TEST_CASE("points have their marks and labels, which do not cover each other") {
    const ScatterChart chart = {.title = "formats & more",
                                .subtitle = "a machine",
                                .x_label = "MB",
                                .y_label = "videos/s",
                                .points = {{.x = 9, .y = 60, .label = "bf16"},
                                           {.x = 6, .y = 75, .label = "int8", .is_filled = false},
                                           {.x = 6, .y = 75, .label = "int4", .is_ringed = true}},
                                .notes = {"a < b"}};
    const std::string svg = to_svg(chart);
    CHECK(is_well_formed(svg));
    CHECK(count(svg, "<circle") == 4);  // the ring is one more
    CHECK(count(svg, "fill=\"none\"") == 2);
    CHECK(count(svg, "a &lt; b</text>") == 1);
    const auto baseline_of = [&](const std::string& label) {
      const std::size_t end = svg.find(">" + label + "</text>");
      REQUIRE(end != std::string::npos);
      const std::size_t y = svg.rfind(" y=\"", end) + 4;
      return std::stod(svg.substr(y, svg.find('"', y) - y));
    };
    CHECK(std::abs(baseline_of("int8") - baseline_of("int4")) >= 12);
  }

  TEST_CASE("where memory differs little the axis begins near the points, and says where") {
    ScatterChart chart;
    for (const double x : {468.0, 470.0, 481.0}) chart.points.push_back({.x = x, .y = 1});
    const std::string near = to_svg(chart);
    CHECK(count(near, ">465</text>") == 1);
    CHECK(count(near, ">0</text>") == 1);  // the y axis's
    chart.points.front().x = 200;
    CHECK(count(to_svg(chart), ">0</text>") == 2);
    chart.points = {{.x = 7, .y = 1}};  // one place
    CHECK(count(to_svg(chart), ">0</text>") == 2);
  }

  TEST_CASE("a point at 0 can be drawn; one outside the axes, and none, are refused") {
    ScatterChart chart;
    chart.points.push_back({.label = "nothing"});
    CHECK(is_well_formed(to_svg(chart)));
    CHECK(to_svg(chart).find("nan") == std::string::npos);
    chart.points.front().x = -1;
    CHECK_THROWS_AS(to_svg(chart), Error);
    chart.points.clear();
    CHECK_THROWS_AS(to_svg(chart), Error);
  }
}

}  // namespace
}  // namespace caption::bench
