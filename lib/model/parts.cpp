#include "model/internal/parts.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"

namespace caption::model {
namespace {

// The edges of what preprocessing hands over, or 0 x 0 when they depend on the video.
std::array<int, 2> output_px(const vision::PreprocessSpec& spec) {
  if (spec.do_center_crop) return spec.crop_px;
  if (spec.do_resize && spec.size_px) return *spec.size_px;
  return {0, 0};
}

void check_fit(const Parts& parts) {
  const std::int64_t image_px = parts.encoder->config().image_px;
  const std::array<int, 2> output = output_px(parts.preprocess);
  if (output[0] != image_px || output[1] != image_px) {
    throw Error(
        ErrorCode::kBadModel,
        "preprocessing and vision tower do not fit: frames become " +
            (output[0] == 0
                 ? std::string("images of varying size")
                 : std::to_string(output[1]) + "x" + std::to_string(output[0]) + " pixels") +
            ", the tower takes " + std::to_string(image_px) + "x" + std::to_string(image_px) +
            "; size or crop_size in the preprocessor's configuration must say so");
  }
  const DecoderSpec& decoder = parts.decoder->spec();
  if (parts.tokenizer->vocab_size() > decoder.vocab) {
    throw Error(ErrorCode::kBadModel, "the tokenizer is another model's: it has " +
                                          std::to_string(parts.tokenizer->vocab_size()) +
                                          " ids, the decoder's embedding " +
                                          std::to_string(decoder.vocab) + " rows");
  }
}

}  // namespace

PartsCaptionModel::PartsCaptionModel(Parts parts) : parts_(std::move(parts)) { check_fit(parts_); }

std::int64_t PartsCaptionModel::vision_tokens(std::int64_t num_frames) const {
  return num_frames * parts_.encoder->tokens_per_frame();
}

Tensor PartsCaptionModel::encode_frames(Stream& stream, ConstView pixel_values) {
  return parts_.encoder->encode(stream, pixel_values);
}

std::string PartsCaptionModel::default_prompt() const { return "이 영상을 자세히 설명해 주세요."; }

Hash128 PartsCaptionModel::content_hash() const {
  Hasher hasher;
  for (const auto& store : parts_.stores) {
    hasher.update_string(store->checkpoint().content_hash().hex());
    store->release_packed_sources();
  }
  for (const std::filesystem::path& path : parts_.config_files) {
    hasher.update_string(path.filename().string());
    hasher.update_string(read_text_file(path));
  }
  hasher.update_string(parts_.settings);
  return hasher.digest();
}

std::int64_t PartsCaptionModel::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& store : parts_.stores) bytes += store->used_bytes();
  return bytes;
}

std::vector<std::filesystem::path> list_config_files(const std::filesystem::path& folder) {
  constexpr const char* kNames[] = {"added_tokens.json",      "config.json",
                                    "generation_config.json", "preprocessor_config.json",
                                    "processor_config.json",  "special_tokens_map.json",
                                    "tokenizer.json",         "tokenizer.model",
                                    "tokenizer_config.json",  "video_preprocessor_config.json"};
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const char* name : kNames) {
    if (std::filesystem::is_regular_file(folder / name, ignored)) files.push_back(folder / name);
  }
  return files;
}

}  // namespace caption::model
