#include "video/internal/input.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "video/internal/playlist.h"
#include "video/internal/to_rgb.h"

namespace caption::video {
namespace {

// Bytes per read: a few packets of a 1080p film.
constexpr int kIoBufferBytes = 64 << 10;
// A demuxer that returns EAGAIN this many times in a row is treated as being at its end.
constexpr int kMaxRetries = 1000;

bool is_still_picture(std::string_view format) {
  return format == "image2" || format.ends_with("_pipe");
}

int refuse_to_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

}  // namespace

// The data source of libav: the file, a read position, and the first failure.
struct Input::Source {
  Source(const OpenFile& the_file, const StopCondition& the_stop)
      : file(the_file), stop(the_stop) {}

  const OpenFile& file;
  const StopCondition& stop;
  std::int64_t position = 0;
  std::exception_ptr failure = nullptr;

  // Callbacks of libav. No exception may pass through its C code.
  static int read(void* opaque, std::uint8_t* out, int capacity) {
    Source& source = *static_cast<Source*>(opaque);
    if (source.failure != nullptr) return AVERROR(EIO);
    if (source.stop.is_met()) return AVERROR_EXIT;
    try {
      const std::span<std::uint8_t> bytes(out, static_cast<std::size_t>(capacity));
      const std::size_t count = source.file.read_at(source.position, std::as_writable_bytes(bytes));
      if (count == 0) return AVERROR_EOF;
      source.position += static_cast<std::int64_t>(count);
      return static_cast<int>(count);
    } catch (...) {
      source.failure = std::current_exception();
      return AVERROR(EIO);
    }
  }

  static std::int64_t seek(void* opaque, std::int64_t offset, int whence) {
    Source& source = *static_cast<Source*>(opaque);
    switch (whence & ~AVSEEK_FORCE) {
      case AVSEEK_SIZE: return source.file.size_bytes();
      case SEEK_SET: break;
      case SEEK_CUR: offset += source.position; break;
      case SEEK_END: offset += source.file.size_bytes(); break;
      default: return AVERROR(EINVAL);
    }
    if (offset < 0) return AVERROR(EINVAL);
    return source.position = offset;
  }
};

Input::Input(const OpenFile& file, const OpenLimits& limits, const StopCondition& stop)
    : file_(file),
      name_(file.path().string()),
      limits_(limits),
      stop_(stop),
      source_(std::make_unique<Source>(file, stop)) {
  silence_libav();
  if (file.size_bytes() == 0) throw Error(ErrorCode::kNotVideo, name_ + ": the file is empty");
  open_format();
  find_streams();
  choose_stream();
}

Input::~Input() = default;

// libav returns AVERROR(ENOMEM) also for a size that a damaged file claims, and for playlists; only
// the allocator sets errno. Demuxers also go on without what they could not allocate: the mov
// demuxer ends its index there and succeeds with fewer frames, so the returned status does not
// count.
void Input::check() const {
  const bool lacks_memory = errno == ENOMEM;
  if (source_->failure != nullptr) std::rethrow_exception(source_->failure);
  if (lacks_memory) {
    throw Error(ErrorCode::kOutOfMemory, name_ + ": libav has not enough memory to read the file");
  }
}

void Input::refuse_playlist() const {
  const std::string_view kind = find_playlist_kind(file_);
  if (kind.empty()) return;
  throw Error(ErrorCode::kNotVideo, name_ + ": is " + std::string(kind) +
                                        ", not a video; name the video files that it refers to");
}

void Input::open_format() {
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBufferBytes));
  if (buffer != nullptr) {
    io_.reset(avio_alloc_context(buffer, kIoBufferBytes, 0, source_.get(), &Source::read, nullptr,
                                 &Source::seek));
    if (io_ == nullptr) av_free(buffer);
  }
  AVFormatContext* format = avformat_alloc_context();
  if (io_ == nullptr || format == nullptr) {
    avformat_free_context(format);
    throw Error(ErrorCode::kOutOfMemory, name_ + ": libav cannot allocate a reader");
  }
  format->pb = io_.get();
  format->io_open = &refuse_to_open;
  // Demuxers that open further inputs (concat) use this list instead of io_open.
  format->protocol_whitelist = av_strdup("none");
  // The name is empty, not null: some demuxers copy it without a check.
  errno = 0;
  const int status = avformat_open_input(&format, "", nullptr, nullptr);  // frees on failure
  if (status >= 0) format_.reset(format);
  check();
  if (status < 0) {
    stop_.check(name_);
    refuse_playlist();
    throw Error(ErrorCode::kNotVideo,
                name_ + ": not a video that libav can open, or cut off before its index (" +
                    av_reason(status) + ")");
  }
  if (is_still_picture(format_->iformat->name)) {
    throw Error(ErrorCode::kNotVideo, name_ +
                                          ": is a still picture, or several without a container (" +
                                          format_->iformat->name + "), not a video");
  }
}

// Determines the stream parameters that the container does not declare. libav may decode a few
// frames for that, so sizes are checked first and the limit is passed to its decoders.
void Input::find_streams() {
  const auto check_sizes = [this] {
    for (unsigned i = 0; i < format_->nb_streams; ++i) {
      const AVCodecParameters& parameters = *format_->streams[i]->codecpar;
      if (parameters.codec_type != AVMEDIA_TYPE_VIDEO) continue;
      if (format_->streams[i]->disposition & AV_DISPOSITION_ATTACHED_PIC) continue;
      require_allowed_size(parameters.width, parameters.height);
    }
  };
  if (limits_.oversized == OpenLimits::Oversized::kRefuse) check_sizes();

  const unsigned num_declared = format_->nb_streams;
  std::vector<AVDictionary*> options(num_declared, nullptr);
  for (AVDictionary*& option : options) {
    av_dict_set_int(&option, "max_pixels", limits_.max_pixels, 0);
  }
  errno = 0;
  const int status =
      avformat_find_stream_info(format_.get(), options.empty() ? nullptr : options.data());
  for (AVDictionary*& option : options)
    av_dict_free(&option);  // does not change errno, nor does free()
  check();
  stop_.check(name_);
  if (status < 0 && format_->nb_streams == 0) {
    refuse_playlist();
    throw Error(ErrorCode::kNotVideo, name_ + ": no streams in this " + format_->iformat->name +
                                          " file (" + av_reason(status) + ")");
  }
  if (limits_.oversized == OpenLimits::Oversized::kRefuse) check_sizes();
}

void Input::choose_stream() {
  bool has_picture = false;
  for (unsigned i = 0; i < format_->nb_streams; ++i) {
    AVStream& stream = *format_->streams[i];
    const bool is_video = stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
    const bool is_picture =
        stream.disposition & (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS);
    if (is_video && !is_picture && stream_ == nullptr) {
      stream_ = &stream;
    } else {
      stream.discard = AVDISCARD_ALL;
      has_picture = has_picture || (is_video && is_picture);
    }
  }
  if (stream_ == nullptr) {
    refuse_playlist();
    throw Error(ErrorCode::kNoVideoStream,
                name_ + ": no video stream; this " + format_->iformat->name + " file has " +
                    counted(format_->nb_streams, "other stream") +
                    (has_picture ? "; its cover picture is not a video" : ""));
  }
  if (limits_.oversized == OpenLimits::Oversized::kRefuse) {
    const Size shown = square_pixel_size({codec_parameters().width, codec_parameters().height},
                                         stream_sample_aspect_ratio(*stream_));
    require_allowed_size(shown.width_px, shown.height_px);
  }
}

bool Input::read(AVPacket& packet) {
  for (int num_retries = 0; num_retries < kMaxRetries;) {
    stop_.check(name_);
    errno = 0;
    const int status = av_read_frame(format_.get(), &packet);
    check();  // also after success: a failed read may have cut the packet short
    if (status == AVERROR(EAGAIN)) {
      ++num_retries;
      continue;
    }
    if (status < 0) break;  // the end of the file, or damage beyond which libav cannot read
    if (packet.stream_index == stream_->index && packet.size > 0) return true;
    av_packet_unref(&packet);
  }
  stop_.check(name_);
  return false;
}

bool Input::seek(std::int64_t pts, std::int64_t dts, std::int64_t position_bytes) {
  const std::string_view format = format_->iformat->name;
  // Matroska's index holds presentation times, those of other formats hold decoding times.
  std::int64_t to = format.starts_with("matroska") || dts == AV_NOPTS_VALUE ? pts : dts;
  int flags = AVSEEK_FLAG_BACKWARD;
  // MPEG streams have no index: seeking to the byte position of the packet is exact, seeking by
  // time is not.
  if (format.starts_with("mpeg") && position_bytes >= 0) {
    to = position_bytes;
    flags = AVSEEK_FLAG_BYTE;
  }
  errno = 0;
  const int status = av_seek_frame(format_.get(), stream_->index, to, flags);
  check();
  return status >= 0;
}

std::int64_t Input::declared_length_us() const {
  if (format_->duration_estimation_method != AVFMT_DURATION_FROM_STREAM) return 0;
  const std::string_view format = format_->iformat->name;
  if ((format.starts_with("mov") || format == "mxf") && stream_->duration > 0) {
    return av_rescale_q(stream_->duration, stream_->time_base, {1, 1'000'000});
  }
  // AVI's header declares a number of frames; libav's duration is already shortened to the data
  // that exist.
  if (format == "avi") return av_rescale_q(stream_->nb_frames, stream_->time_base, {1, 1'000'000});
  // For other formats libav reports the length of the file for every stream, but Matroska may have
  // a tag with the length of the stream.
  std::int64_t length_us = 0;
  const AVDictionaryEntry* const tag =
      av_dict_get(stream_->metadata, "DURATION", nullptr, AV_DICT_IGNORE_SUFFIX);
  if (tag != nullptr && av_parse_time(&length_us, tag->value, 1) >= 0) return length_us;
  const bool is_alone = std::all_of(
      format_->streams, format_->streams + format_->nb_streams, [this](const AVStream* other) {
        const AVMediaType type = other->codecpar->codec_type;
        return other == stream_ || (type != AVMEDIA_TYPE_VIDEO && type != AVMEDIA_TYPE_AUDIO);
      });
  return is_alone ? std::max<std::int64_t>(format_->duration, 0) : 0;
}

void Input::require_allowed_size(std::int64_t width_px, std::int64_t height_px) const {
  if (width_px <= 0 || height_px <= 0 || width_px <= limits_.max_pixels / height_px) return;
  throw Error(ErrorCode::kTooLarge, name_ + ": a frame is " + std::to_string(width_px) + "x" +
                                        std::to_string(height_px) + ", " +
                                        std::to_string(width_px * height_px) + " pixels; at most " +
                                        std::to_string(limits_.max_pixels) + " are allowed");
}

}  // namespace caption::video
