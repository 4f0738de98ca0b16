#include "video/image.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "video/internal/av.h"

namespace caption::video {
namespace {

constexpr int kRgbBytes = 3;
constexpr int kMaxColumns = 4;
// libswscale's vector code writes past the row's end up to its register's size.
constexpr int kRowAlignmentBytes = 64;

void require_whole(const Frame& frame) {
  CAPTION_CHECK(frame.width_px > 0 && frame.height_px > 0 &&
                    frame.rgb.size() == static_cast<std::size_t>(frame.width_px) *
                                            static_cast<std::size_t>(frame.height_px) * kRgbBytes,
                "a frame's bytes are width * height * 3");
}

Frame black_frame(int width_px, int height_px) {
  Frame frame;
  frame.width_px = width_px;
  frame.height_px = height_px;
  frame.rgb.resize(static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px) *
                   kRgbBytes);
  return frame;
}

Frame scaled_to_width(const Frame& frame, int width_px) {
  const int height_px =
      std::max(1, static_cast<int>(std::lround(static_cast<double>(frame.height_px) * width_px /
                                               static_cast<double>(frame.width_px))));
  const ScalerPtr scaler(sws_getContext(frame.width_px, frame.height_px, AV_PIX_FMT_RGB24, width_px,
                                        height_px, AV_PIX_FMT_RGB24, SWS_AREA | SWS_ACCURATE_RND,
                                        nullptr, nullptr, nullptr));
  const int pitch_bytes =
      (width_px * kRgbBytes + kRowAlignmentBytes - 1) / kRowAlignmentBytes * kRowAlignmentBytes;
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(pitch_bytes) *
                                     static_cast<std::size_t>(height_px) +
                                 kRowAlignmentBytes);
  const std::uint8_t* const from[4] = {frame.rgb.data(), nullptr, nullptr, nullptr};
  const int from_pitch[4] = {frame.width_px * kRgbBytes, 0, 0, 0};
  std::uint8_t* const to[4] = {rows.data(), nullptr, nullptr, nullptr};
  const int to_pitch[4] = {pitch_bytes, 0, 0, 0};
  CAPTION_CHECK(scaler != nullptr && sws_scale(scaler.get(), from, from_pitch, 0, frame.height_px,
                                               to, to_pitch) == height_px,
                "libswscale scales RGB8");
  Frame scaled = black_frame(width_px, height_px);
  const std::size_t row_bytes = static_cast<std::size_t>(width_px) * kRgbBytes;
  for (int y = 0; y < height_px; ++y) {
    std::memcpy(scaled.rgb.data() + static_cast<std::size_t>(y) * row_bytes,
                rows.data() + static_cast<std::ptrdiff_t>(y) * pitch_bytes, row_bytes);
  }
  return scaled;
}

void paste(const Frame& from, int left_px, int top_px, Frame& onto) {
  const std::size_t row_bytes = static_cast<std::size_t>(from.width_px) * kRgbBytes;
  for (int y = 0; y < from.height_px; ++y) {
    const std::size_t to_px =
        static_cast<std::size_t>(top_px + y) * static_cast<std::size_t>(onto.width_px) +
        static_cast<std::size_t>(left_px);
    std::memcpy(onto.rgb.data() + to_px * kRgbBytes,
                from.rgb.data() + static_cast<std::size_t>(y) * row_bytes, row_bytes);
  }
}

PacketPtr encode_png(const Frame& frame) {
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_PNG);
  if (encoder == nullptr) throw Error(ErrorCode::kIo, "this FFmpeg has no PNG encoder");
  const CodecPtr codec(avcodec_alloc_context3(encoder));
  const FramePtr picture = make_frame();
  PacketPtr packet = make_packet();
  if (codec == nullptr) throw Error(ErrorCode::kOutOfMemory, "libav cannot allocate an encoder");
  codec->width = picture->width = frame.width_px;
  codec->height = picture->height = frame.height_px;
  codec->pix_fmt = AV_PIX_FMT_RGB24;
  codec->time_base = {1, 1};
  picture->format = AV_PIX_FMT_RGB24;
  int status = avcodec_open2(codec.get(), encoder, nullptr);
  if (status >= 0) status = av_frame_get_buffer(picture.get(), 0);
  if (status >= 0) {
    const int row_bytes = frame.width_px * kRgbBytes;
    av_image_copy_plane(picture->data[0], picture->linesize[0], frame.rgb.data(), row_bytes,
                        row_bytes, frame.height_px);
    status = avcodec_send_frame(codec.get(), picture.get());
  }
  if (status >= 0) status = avcodec_send_frame(codec.get(), nullptr);
  if (status >= 0) status = avcodec_receive_packet(codec.get(), packet.get());
  if (status < 0) throw Error(ErrorCode::kIo, "cannot encode a PNG (" + av_reason(status) + ")");
  return packet;
}

}  // namespace

void write_png(const std::filesystem::path& path, const Frame& frame) {
  require_whole(frame);
  silence_libav();
  const PacketPtr png = encode_png(frame);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(png->data), png->size);
  file.close();
  if (!file) throw Error(ErrorCode::kIo, path.string() + ": cannot write the picture");
}

Frame contact_sheet(const Clip& clip, int cell_width_px) {
  CAPTION_CHECK(!clip.frames.empty(), "a contact sheet shows at least one frame");
  CAPTION_CHECK(cell_width_px > 0, "a cell has a width");
  silence_libav();
  const auto num_columns =
      static_cast<std::size_t>(std::min<std::ptrdiff_t>(std::ssize(clip.frames), kMaxColumns));
  std::vector<Frame> cells;
  std::vector<int> row_tops = {0};
  for (const Frame& frame : clip.frames) {
    require_whole(frame);
    if (cells.size() % num_columns == 0) row_tops.push_back(row_tops.back());
    cells.push_back(scaled_to_width(frame, cell_width_px));
    const int top = row_tops[row_tops.size() - 2];
    row_tops.back() = std::max(row_tops.back(), top + cells.back().height_px);
  }
  Frame sheet = black_frame(static_cast<int>(num_columns) * cell_width_px, row_tops.back());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto column = static_cast<int>(i % num_columns);
    paste(cells[i], column * cell_width_px, row_tops[i / num_columns], sheet);
  }
  return sheet;
}

}  // namespace caption::video
