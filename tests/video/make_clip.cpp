#include "tests/video/make_clip.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/channel_layout.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__)
// x265 3.5 does not free all of its encoder; the tests do not look for that leak.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libx265"; }
#endif

namespace caption::test {
namespace {

constexpr int kCellsPerSide = 4;  // 16 cells encode 16 bits

struct Deleter {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
  void operator()(AVFormatContext* format) const {
    if (format->pb != nullptr) avio_closep(&format->pb);
    avformat_free_context(format);
  }
};
using CodecPtr = std::unique_ptr<AVCodecContext, Deleter>;
using FramePtr = std::unique_ptr<AVFrame, Deleter>;
using PacketPtr = std::unique_ptr<AVPacket, Deleter>;
using ScalerPtr = std::unique_ptr<SwsContext, Deleter>;
using FormatPtr = std::unique_ptr<AVFormatContext, Deleter>;

int check(int status, const char* what) {
  if (status >= 0) return status;
  char reason[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(status, reason, sizeof reason);
  throw Error(ErrorCode::kIo, std::string("make_clip: ") + what + ": " + reason);
}

bool cell_is_white(int number, int cell_x, int cell_y) {
  return ((number >> (cell_y * kCellsPerSide + cell_x)) & 1) != 0;
}

FramePtr make_picture(AVPixelFormat format, int width_px, int height_px) {
  FramePtr frame(av_frame_alloc());
  frame->format = format;
  frame->width = width_px;
  frame->height = height_px;
  check(av_frame_get_buffer(frame.get(), 0), "a picture's memory");
  return frame;
}

// The stored picture that shows the number upright after a clockwise rotation by rotation_degrees.
FramePtr number_picture(int number, int rotation_degrees, int width_px, int height_px) {
  FramePtr rgb = make_picture(AV_PIX_FMT_RGB24, width_px, height_px);
  for (int y = 0; y < height_px; ++y) {
    for (int x = 0; x < width_px; ++x) {
      const int cell_x = x * kCellsPerSide / width_px;
      const int cell_y = y * kCellsPerSide / height_px;
      const int last = kCellsPerSide - 1;
      bool is_white = false;
      switch (rotation_degrees) {
        case 90: is_white = cell_is_white(number, last - cell_y, cell_x); break;
        case 180: is_white = cell_is_white(number, last - cell_x, last - cell_y); break;
        case 270: is_white = cell_is_white(number, cell_y, last - cell_x); break;
        default: is_white = cell_is_white(number, cell_x, cell_y); break;
      }
      std::memset(rgb->data[0] + y * rgb->linesize[0] + x * 3, is_white ? 255 : 0, 3);
    }
  }
  return rgb;
}

FramePtr noise_picture(int number, int width_px, int height_px) {
  FramePtr rgb = make_picture(AV_PIX_FMT_RGB24, width_px, height_px);
  auto state = static_cast<std::uint64_t>(number) * 2 + 1;
  for (int y = 0; y < height_px; ++y) {
    std::uint8_t* row = rgb->data[0] + y * rgb->linesize[0];
    for (int i = 0; i < 3 * width_px; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
      row[i] = static_cast<std::uint8_t>(state >> 56);
    }
  }
  return rgb;
}

// Scales to the given size, without interpolation where it is the same.
FramePtr convert(const AVFrame& rgb, AVPixelFormat format, int width_px, int height_px) {
  FramePtr frame = make_picture(format, width_px, height_px);
  const bool is_same_size = width_px == rgb.width && height_px == rgb.height;
  const ScalerPtr scaler(sws_getContext(
      rgb.width, rgb.height, AV_PIX_FMT_RGB24, width_px, height_px, format,
      (is_same_size ? SWS_POINT : SWS_AREA) | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
  check(scaler != nullptr ? 0 : AVERROR(EINVAL), "no conversion to the pixel format");
  sws_scale(scaler.get(), rgb.data, rgb.linesize, 0, rgb.height, frame->data, frame->linesize);
  return frame;
}

FramePtr convert(const AVFrame& rgb, AVPixelFormat format) {
  return convert(rgb, format, rgb.width, rgb.height);
}

FramePtr rgb_picture(const video::Frame& from) {
  FramePtr rgb = make_picture(AV_PIX_FMT_RGB24, from.width_px, from.height_px);
  for (int y = 0; y < from.height_px; ++y) {
    const std::size_t row_bytes = 3 * static_cast<std::size_t>(from.width_px);
    std::memcpy(rgb->data[0] + y * rgb->linesize[0],
                from.rgb.data() + static_cast<std::size_t>(y) * row_bytes, row_bytes);
  }
  return rgb;
}

// A picture of one colour in planar YUV or gray of 8 to 16 bits; the colour is given in 8 bits.
FramePtr solid_picture(const ClipSpec& spec, AVPixelFormat format) {
  FramePtr frame = make_picture(format, spec.width_px, spec.height_px);
  const AVPixFmtDescriptor& shape = *av_pix_fmt_desc_get(format);
  for (std::size_t plane = 0; plane < shape.nb_components; ++plane) {
    const int rows =
        plane == 0 ? frame->height : AV_CEIL_RSHIFT(frame->height, shape.log2_chroma_h);
    const int value = (*spec.solid_yuv)[plane];
    const int depth_bits = shape.comp[plane].depth;
    for (int y = 0; y < rows; ++y) {
      std::uint8_t* row = frame->data[plane] + y * frame->linesize[plane];
      if (depth_bits == 8) {
        std::memset(row, value, static_cast<std::size_t>(frame->linesize[plane]));
        continue;
      }
      auto* wide = reinterpret_cast<std::uint16_t*>(row);
      std::fill_n(wide, frame->linesize[plane] / 2,
                  static_cast<std::uint16_t>(value << (depth_bits - 8)));
    }
  }
  return frame;
}

AVDictionary* options_for(const ClipSpec& spec) {
  AVDictionary* options = nullptr;
  if (spec.encoder == "libx264") {
    av_dict_set(&options, "preset", "veryfast", 0);
    av_dict_set(&options, "sc_threshold", "0", 0);  // keyframes every gop_frames only
  }
  if (spec.encoder == "libx265") {
    av_dict_set(&options, "preset", "ultrafast", 0);
    av_dict_set(&options, "x265-params", "log-level=none", 0);
  }
  if (spec.encoder == "libvpx-vp9" || spec.encoder == "libvpx" || spec.encoder == "libaom-av1") {
    av_dict_set(&options, "cpu-used", "8", 0);
  }
  for (const auto& [key, value] : spec.encoder_options) {
    av_dict_set(&options, key.c_str(), value.c_str(), 0);
  }
  return options;
}

// Opens an encoder for pictures of the given width, with global headers when the muxer needs them.
CodecPtr open_encoder(const ClipSpec& spec, int width_px, const AVFormatContext& format) {
  const AVCodec* encoder = avcodec_find_encoder_by_name(spec.encoder.c_str());
  check(encoder != nullptr ? 0 : AVERROR_ENCODER_NOT_FOUND, spec.encoder.c_str());
  CodecPtr codec(avcodec_alloc_context3(encoder));
  codec->width = width_px;
  codec->height = spec.height_px;
  codec->pix_fmt = av_get_pix_fmt(spec.pixel_format.c_str());
  codec->time_base = {1, spec.fps * 4};
  codec->framerate = {spec.fps, 1};
  codec->gop_size = spec.gop_frames;
  codec->max_b_frames = spec.b_frames;
  codec->sample_aspect_ratio = {spec.sar_num, spec.sar_den};
  codec->bit_rate = 2'000'000;
  codec->thread_count = 1;
  codec->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
  if (spec.encoder == "mpeg4" || spec.encoder == "mpeg2video") codec->time_base = {1, spec.fps};
  if (!spec.colour_range.empty()) {
    codec->color_range =
        static_cast<AVColorRange>(av_color_range_from_name(spec.colour_range.c_str()));
  }
  if (!spec.colour_matrix.empty()) {
    codec->colorspace =
        static_cast<AVColorSpace>(av_color_space_from_name(spec.colour_matrix.c_str()));
  }
  if (format.oformat->flags & AVFMT_GLOBALHEADER) codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  AVDictionary* options = options_for(spec);
  const int status = avcodec_open2(codec.get(), encoder, &options);
  av_dict_free(&options);
  check(status, "opening the encoder");
  return codec;
}

FormatPtr open_muxer(const std::filesystem::path& path, const std::string& muxer) {
  AVFormatContext* raw = nullptr;
  const std::string url = "file:" + path.string();
  check(avformat_alloc_output_context2(&raw, nullptr, muxer.c_str(), url.c_str()), muxer.c_str());
  FormatPtr format(raw);
  check(avio_open(&format->pb, url.c_str(), AVIO_FLAG_WRITE), "the file");
  return format;
}

void set_rotation(AVStream& stream, int clockwise_degrees) {
  std::int32_t matrix[9] = {};
  av_display_rotation_set(matrix, clockwise_degrees);
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  AVPacketSideData* side = av_packet_side_data_new(&stream.codecpar->coded_side_data,
                                                   &stream.codecpar->nb_coded_side_data,
                                                   AV_PKT_DATA_DISPLAYMATRIX, sizeof matrix, 0);
  check(side != nullptr ? 0 : AVERROR(ENOMEM), "side data");
  std::memcpy(side->data, matrix, sizeof matrix);
#else
  std::uint8_t* bytes = av_stream_new_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, sizeof matrix);
  check(bytes != nullptr ? 0 : AVERROR(ENOMEM), "side data");
  std::memcpy(bytes, matrix, sizeof matrix);
#endif
}

void write_packets(AVCodecContext& codec, AVStream& stream, AVFormatContext& format) {
  const PacketPtr packet(av_packet_alloc());
  while (avcodec_receive_packet(&codec, packet.get()) >= 0) {
    packet->stream_index = stream.index;
    if (codec.framerate.num > 0) {
      packet->duration = av_rescale_q(1, av_inv_q(codec.framerate), codec.time_base);
    }
    av_packet_rescale_ts(packet.get(), codec.time_base, stream.time_base);
    check(av_interleaved_write_frame(&format, packet.get()), "writing a packet");
  }
}

void encode(const AVFrame* frame, AVCodecContext& codec, AVStream& stream,
            AVFormatContext& format) {
  check(avcodec_send_frame(&codec, frame), "encoding a frame");
  write_packets(codec, stream, format);
}

FramePtr picture_for(const ClipSpec& spec, int number, int width_px, AVPixelFormat format) {
  if (spec.solid_yuv.has_value()) return solid_picture(spec, format);
  if (spec.pictures != nullptr) {
    const std::vector<video::Frame>& frames = spec.pictures->frames;
    const video::Frame& frame = frames[static_cast<std::size_t>(number) % frames.size()];
    return convert(*rgb_picture(frame), format, width_px, spec.height_px);
  }
  if (spec.is_still) number = spec.num_frames - 1;
  if (spec.is_noise) return convert(*noise_picture(number, width_px, spec.height_px), format);
  return convert(*number_picture(number, spec.rotation_degrees, width_px, spec.height_px), format);
}

AVStream& add_stream(AVFormatContext& format, const AVCodecContext& codec) {
  AVStream* stream = avformat_new_stream(&format, nullptr);
  check(stream != nullptr ? 0 : AVERROR(ENOMEM), "a stream");
  check(avcodec_parameters_from_context(stream->codecpar, &codec), "the stream's parameters");
  stream->time_base = codec.time_base;
  return *stream;
}

}  // namespace

std::string why_not_available(const ClipSpec& spec) {
  if (avcodec_find_encoder_by_name(spec.encoder.c_str()) == nullptr) {
    return "this FFmpeg has no encoder " + spec.encoder;
  }
  if (av_guess_format(spec.muxer.c_str(), nullptr, nullptr) == nullptr) {
    return "this FFmpeg has no muxer " + spec.muxer;
  }
  return {};
}

void make_clip(const std::filesystem::path& path, const ClipSpec& spec) {
  av_log_set_level(AV_LOG_QUIET);
  const FormatPtr format = open_muxer(path, spec.muxer);
  CodecPtr codec = open_encoder(spec, spec.width_px, *format);
  AVStream& stream = add_stream(*format, *codec);
  stream.avg_frame_rate = codec->framerate;
  stream.sample_aspect_ratio = codec->sample_aspect_ratio;
  if (spec.rotation_degrees != 0) set_rotation(stream, spec.rotation_degrees);
  AVDictionary* options = nullptr;
  for (const auto& [key, value] : spec.muxer_options) {
    av_dict_set(&options, key.c_str(), value.c_str(), 0);
  }
  const int status = avformat_write_header(format.get(), &options);
  av_dict_free(&options);
  check(status, "the file's header");
  int width_px = spec.width_px;
  for (int i = 0; i < spec.num_frames; ++i) {
    if (spec.second_width_px > 0 && i == spec.num_frames / 2) {
      encode(nullptr, *codec, stream, *format);
      width_px = spec.second_width_px;
      codec = open_encoder(spec, width_px, *format);
    }
    const FramePtr frame = picture_for(spec, i, width_px, codec->pix_fmt);
    const std::int64_t quarters = spec.quarter_frame_pts.empty()
                                      ? std::int64_t{4} * i
                                      : spec.quarter_frame_pts[static_cast<std::size_t>(i)];
    frame->pts = av_rescale_q(quarters - std::int64_t{4} * spec.cut_frames, {1, spec.fps * 4},
                              codec->time_base);
    frame->sample_aspect_ratio = codec->sample_aspect_ratio;
    frame->color_range = codec->color_range;
    frame->colorspace = codec->colorspace;
    encode(frame.get(), *codec, stream, *format);
  }
  encode(nullptr, *codec, stream, *format);
  check(av_write_trailer(format.get()), "the file's trailer");
}

int frame_number(const video::Frame& frame) {
  constexpr int kBlack = 80, kWhite = 175;  // thresholds: lossy codecs ring, but not up to mid-gray
  int number = 0;
  for (int cell = 0; cell < kCellsPerSide * kCellsPerSide; ++cell) {
    const int x = (2 * (cell % kCellsPerSide) + 1) * frame.width_px / (2 * kCellsPerSide);
    const int y = (2 * (cell / kCellsPerSide) + 1) * frame.height_px / (2 * kCellsPerSide);
    const int value = frame.rgb[static_cast<std::size_t>((y * frame.width_px + x) * 3)];
    if (value > kBlack && value < kWhite) return -1;
    if (value >= kWhite) number |= 1 << cell;
  }
  return number;
}

void make_audio(const std::filesystem::path& path, Cover cover) {
  av_log_set_level(AV_LOG_QUIET);
  const FormatPtr format = open_muxer(path, "mp4");
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_AAC);
  check(encoder != nullptr ? 0 : AVERROR_ENCODER_NOT_FOUND, "aac");
  const CodecPtr codec(avcodec_alloc_context3(encoder));
  codec->sample_rate = 48000;
  codec->sample_fmt = AV_SAMPLE_FMT_FLTP;
  codec->time_base = {1, codec->sample_rate};
  codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_channel_layout_default(&codec->ch_layout, 1);
  check(avcodec_open2(codec.get(), encoder, nullptr), "opening the audio encoder");
  AVStream& tone = add_stream(*format, *codec);

  CodecPtr png;
  AVStream* picture = nullptr;
  if (cover == Cover::kPicture) {
    const ClipSpec spec{.encoder = "png", .pixel_format = "rgb24"};
    png = open_encoder(spec, spec.width_px, *format);
    picture = &add_stream(*format, *png);
    picture->disposition |= AV_DISPOSITION_ATTACHED_PIC;
  }
  check(avformat_write_header(format.get(), nullptr), "the file's header");
  if (picture != nullptr) {
    const FramePtr frame = convert(*number_picture(1, 0, 128, 96), AV_PIX_FMT_RGB24);
    frame->pts = 0;
    encode(frame.get(), *png, *picture, *format);
    encode(nullptr, *png, *picture, *format);
  }
  for (std::int64_t pts = 0; pts < codec->sample_rate; pts += codec->frame_size) {
    const FramePtr frame(av_frame_alloc());
    frame->format = codec->sample_fmt;
    frame->nb_samples = codec->frame_size;
    frame->sample_rate = codec->sample_rate;
    check(av_channel_layout_copy(&frame->ch_layout, &codec->ch_layout), "the channel layout");
    check(av_frame_get_buffer(frame.get(), 0), "a block of sound");
    auto* samples = reinterpret_cast<float*>(frame->data[0]);
    for (int i = 0; i < frame->nb_samples; ++i) {
      samples[i] = 0.25F * std::sin(0.05F * static_cast<float>(pts + i));
    }
    frame->pts = pts;
    encode(frame.get(), *codec, tone, *format);
  }
  encode(nullptr, *codec, tone, *format);
  check(av_write_trailer(format.get()), "the file's trailer");
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "caption_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::kIo, name + ": cannot be made");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<char> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace caption::test
