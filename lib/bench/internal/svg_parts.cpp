#include "bench/internal/svg_parts.h"

#include <cmath>
#include <cstdio>

namespace caption::bench {
namespace {

constexpr const char* kStyle =
    "<style>"
    "text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}"
    ".page{fill:#ffffff}.grid{stroke:#d0d7de;stroke-width:1}.axis{stroke:#57606a;stroke-width:1.2}"
    ".soft{fill:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}"
    ".grid{stroke:#30363d}.axis{stroke:#8b949e}.soft{fill:#9da7b1}}"
    "</style>\n";

}  // namespace

std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string px(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string begin_svg(double width, double height, const std::string& title) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + px(width) + " " + px(height) +
         "\" width=\"" + px(width) + "\" height=\"" + px(height) + "\" role=\"img\" aria-label=\"" +
         escape_xml(title) + "\">\n" + kStyle +
         "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
}

std::string svg_text(double x, double y, const std::string& text, const std::string& attributes) {
  return "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\" " + attributes + ">" + escape_xml(text) +
         "</text>\n";
}

std::string svg_segment(double x1, double y1, double x2, double y2, const char* style) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + px(x1) + "\" y1=\"" + px(y1) +
         "\" x2=\"" + px(x2) + "\" y2=\"" + px(y2) + "\"/>\n";
}

double tick_step(double largest) {
  const double raw = largest / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

}  // namespace caption::bench
