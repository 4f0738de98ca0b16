#include "bench/line_chart.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

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

}  // namespace
}  // namespace caption::bench
