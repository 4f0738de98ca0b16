#include "vision/contact_sheet.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "base/error.h"

using caption::video::Frame;
using caption::vision::contact_sheet;

namespace {

Frame grey_frame(int width_px, int height_px, std::uint8_t level) {
  Frame frame;
  frame.width_px = width_px;
  frame.height_px = height_px;
  frame.rgb.assign(static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px) * 3,
                   level);
  return frame;
}

std::uint8_t level_at(const Frame& frame, int x, int y) {
  return frame.rgb[(static_cast<std::size_t>(y) * static_cast<std::size_t>(frame.width_px) +
                    static_cast<std::size_t>(x)) *
                   3];
}

}  // namespace

TEST_SUITE("vision/contact_sheet") {
  TEST_CASE("puts frames in rows of four, in order, each scaled to its cell") {
    std::vector<Frame> frames;
    for (int i = 0; i < 5; ++i)
      frames.push_back(grey_frame(40, 20, static_cast<std::uint8_t>(50 + i)));
    const Frame sheet = contact_sheet(frames, 10);
    CHECK(sheet.width_px == 40);
    CHECK(sheet.height_px == 10);
    for (int i = 0; i < 4; ++i) CHECK(level_at(sheet, i * 10 + 5, 2) == 50 + i);
    CHECK(level_at(sheet, 5, 7) == 54);
    CHECK(level_at(sheet, 15, 7) == 0);  // outside of any cell
  }

  TEST_CASE("a row is as high as its highest frame") {
    const std::vector<Frame> frames = {grey_frame(40, 20, 90), grey_frame(20, 40, 91)};
    const Frame sheet = contact_sheet(frames, 10);
    CHECK(sheet.width_px == 20);
    CHECK(sheet.height_px == 20);
    CHECK(level_at(sheet, 5, 2) == 90);
    CHECK(level_at(sheet, 15, 18) == 91);
  }

  TEST_CASE("a high and narrow frame is as high as four cells are wide") {
    for (const int height_px : {400, 40'000}) {
      const std::vector<Frame> frames = {grey_frame(2, height_px, 90), grey_frame(40, 20, 91)};
      const Frame sheet = contact_sheet(frames, 10);
      CHECK(sheet.width_px == 20);
      CHECK(sheet.height_px == 40);
      CHECK(level_at(sheet, 0, 39) == 90);
      CHECK(level_at(sheet, 2, 39) == 0);  // 2 x 400 in a height of 40 is narrower than 1 pixel
      CHECK(level_at(sheet, 15, 2) == 91);
    }
  }

  TEST_CASE("writes the time on cells that have room for it") {
    std::vector<Frame> frames = {grey_frame(240, 135, 128)};
    frames[0].pts_us = 1'250'000;
    const Frame labelled = contact_sheet(frames, 240);
    CHECK(level_at(labelled, 0, 134) == 0);     // inside the box of the label
    CHECK(level_at(labelled, 120, 60) == 128);  // inside the picture
    frames[0].pts_us = 2'500'000;
    CHECK(contact_sheet(frames, 240).rgb != labelled.rgb);
  }

  TEST_CASE("one pixel and no frame") {
    const std::vector<Frame> pixel = {grey_frame(1, 1, 7)};
    CHECK(level_at(contact_sheet(pixel, 4), 3, 3) == 7);
    CHECK_THROWS_AS(contact_sheet({}, 10), caption::Error);
  }
}
