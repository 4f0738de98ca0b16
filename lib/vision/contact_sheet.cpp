#include "vision/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <opencv2/core.hpp>
#include <opencv2/core/utility.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::vision {
namespace {

constexpr std::size_t kMaxColumns = 4;
constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr double kFontScale = 0.45;  // about 10 px high
constexpr int kMarginPx = 4;
// Narrower cells are too narrow for "999.99 s".
constexpr int kMinLabelledWidthPx = 80;
// Bounds the sheet of frames that are a few pixels wide and thousands high.
constexpr int kMaxCellHeightInWidths = 4;

// A cv::Mat that refers to the bytes of the frame; no copy is made, and the bytes of a const frame
// must not be written through it.
cv::Mat wrap(const video::Frame& frame) {
  return {frame.height_px, frame.width_px, CV_8UC3, const_cast<std::uint8_t*>(frame.rgb.data())};
}

void write_time(cv::Mat cell, std::int64_t pts_us) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f s", static_cast<double>(pts_us) / 1e6);
  int baseline_px = 0;
  const cv::Size size = cv::getTextSize(text.data(), kFont, kFontScale, 1, &baseline_px);
  const int box_height_px = size.height + baseline_px + kMarginPx;
  if (cell.cols < kMinLabelledWidthPx || cell.rows < 2 * box_height_px) return;
  const cv::Rect box(0, cell.rows - box_height_px, size.width + 2 * kMarginPx, box_height_px);
  cv::rectangle(cell, box, cv::Scalar::all(0), cv::FILLED);
  cv::putText(cell, text.data(), {kMarginPx, cell.rows - baseline_px - kMarginPx / 2}, kFont,
              kFontScale, cv::Scalar::all(255), 1, cv::LINE_AA);
}

cv::Mat make_cell(const video::Frame& frame, int width_px) {
  const int max_height_px = kMaxCellHeightInWidths * width_px;
  const double scale = std::min(static_cast<double>(width_px) / frame.width_px,
                                static_cast<double>(max_height_px) / frame.height_px);
  const auto scaled = [&](int size_px, int most_px) {
    return std::clamp(static_cast<int>(std::lround(size_px * scale)), 1, most_px);
  };
  cv::Mat cell;
  cv::resize(wrap(frame), cell,
             {scaled(frame.width_px, width_px), scaled(frame.height_px, max_height_px)}, 0, 0,
             scale < 1 ? cv::INTER_AREA : cv::INTER_CUBIC);
  write_time(cell, frame.pts_us);
  return cell;
}

video::Frame make_sheet(std::span<const video::Frame> frames, int cell_width_px) {
  const std::size_t num_columns = std::min(frames.size(), kMaxColumns);
  std::vector<cv::Mat> cells;
  std::vector<int> row_tops = {0};
  for (const video::Frame& frame : frames) {
    if (cells.size() % num_columns == 0) row_tops.push_back(row_tops.back());
    cells.push_back(make_cell(frame, cell_width_px));
    const int top = row_tops[row_tops.size() - 2];
    row_tops.back() = std::max(row_tops.back(), top + cells.back().rows);
  }
  video::Frame sheet;
  sheet.width_px = static_cast<int>(num_columns) * cell_width_px;
  sheet.height_px = row_tops.back();
  sheet.rgb.assign(
      static_cast<std::size_t>(sheet.width_px) * static_cast<std::size_t>(sheet.height_px) * 3, 0);
  const cv::Mat canvas = wrap(sheet);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int left_px = static_cast<int>(i % num_columns) * cell_width_px;
    const int top_px = row_tops[i / num_columns];
    cells[i].copyTo(canvas(cv::Rect(left_px, top_px, cells[i].cols, cells[i].rows)));
  }
  return sheet;
}

}  // namespace

video::Frame contact_sheet(std::span<const video::Frame> frames, int cell_width_px) {
  CAPTION_CHECK(!frames.empty(), "a contact sheet shows at least one frame");
  CAPTION_CHECK(cell_width_px > 0, "a cell has a width");
  try {
    return make_sheet(frames, cell_width_px);
  } catch (const cv::Exception& error) {
    throw Error(error.code == cv::Error::StsNoMem ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
                std::string("contact sheet: OpenCV: ") + error.err);
  }
}

std::string opencv_version() { return cv::getVersionString(); }

}  // namespace caption::vision
