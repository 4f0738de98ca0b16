// bench/internal/svg_parts.h: what the charts share: page, colours, text, lines and ticks.
#pragma once

#include <array>
#include <string>

namespace caption::bench {

// Colours of Okabe and Ito's palette with contrast to both white and black, distinguishable with
// colour blindness; marks must differ as well.
inline constexpr std::array kSvgColours = {"#0072B2", "#D55E00", "#009E73",
                                           "#CC79A7", "#56B4E9", "#E69F00"};

// The beginning of a file: its size in pixels, the style, in which text and grid follow the
// viewer's colour scheme, and the page.
std::string begin_svg(double width, double height, const std::string& title);

// Text with the characters of XML escaped.
std::string escape_xml(const std::string& text);
// A coordinate with one decimal.
std::string px(double value);

std::string svg_text(double x, double y, const std::string& text, const std::string& attributes);
// `style` is a class of the style sheet: "axis" or "grid".
std::string svg_segment(double x1, double y1, double x2, double y2, const char* style);

// Returns 1, 2, 2.5 or 5 times a power of ten, for about five ticks up to `largest`.
double tick_step(double largest);

}  // namespace caption::bench
