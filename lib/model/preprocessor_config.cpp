#include "model/internal/preprocessor_config.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/mend_advice.h"
#include "model/internal/config.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMaxEdgePx = 4096;
// The numbers of PIL.Image.Resampling.
constexpr std::int64_t kBilinear = 2;
constexpr std::int64_t kBicubic = 3;

int require_edge(const JsonObject& config, std::string_view key) {
  return static_cast<int>(config.require_int(key, 1, kMaxEdgePx));
}

// Sizes are objects, but older files (openai/clip-vit-large-patch14-336) have a plain number.
// Returns std::nullopt for anything but an object: the caller then reads the number and reports its
// errors.
std::optional<JsonObject> find_size_object(const JsonObject& config, std::string_view key) {
  try {
    return config.get_object(key);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::array<int, 2> require_height_width(const JsonObject& size) {
  return {require_edge(size, "height"), require_edge(size, "width")};
}

// Limits of pixels, under the names of edges. The sizes of patches must be the tower's.
void parse_limits(const JsonObject& config, const PreprocessDefaults& defaults,
                  vision::SmartResize& smart) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 40;
  const std::int64_t patch_px = config.get_int("patch_size", defaults.patch_px, 1, kMaxEdgePx);
  const std::int64_t merge = config.get_int("merge_size", 2, 1, kMaxEdgePx);
  const std::int64_t frames = config.get_int("temporal_patch_size", 2, 1, 64);
  if (patch_px * merge != smart.unit_px || frames != smart.frames_per_patch) {
    fail_bad_file(config.name() + ": patch_size " + std::to_string(patch_px) + ", merge_size " +
                  std::to_string(merge) + " and temporal_patch_size " + std::to_string(frames) +
                  " are another model's: the tower merges patches to " +
                  counted(smart.unit_px, "pixel") + " of " +
                  counted(smart.frames_per_patch, "frame"));
  }
  const auto size = find_size_object(config, "size");
  const auto parse = [&](const char* key, const char* edge, std::int64_t least,
                         std::int64_t& limit) {
    if (defaults.reads_pixel_keys && config.has(key)) {
      limit = config.require_int(key, least, kMostPixels);
    } else if (size) {
      limit = size->require_int(edge, least, kMostPixels);
    }
  };
  parse("min_pixels", "shortest_edge", 1, smart.min_pixels);
  parse("max_pixels", "longest_edge", smart.min_pixels, smart.max_pixels);
}

void parse_size(const JsonObject& config, const PreprocessDefaults& defaults,
                vision::PreprocessSpec& spec) {
  if (spec.smart) return parse_limits(config, defaults, *spec.smart);
  if (!config.has("size")) return;
  const auto size = find_size_object(config, "size");
  spec.shortest_edge_px.reset();
  spec.size_px.reset();
  if (!size) {
    const int edge = require_edge(config, "size");
    if (defaults.number_is_square) {
      spec.size_px = {edge, edge};
    } else {
      spec.shortest_edge_px = edge;
    }
  } else if (size->has("height") || size->has("width")) {
    spec.size_px = require_height_width(*size);
  } else {
    if (size->has("longest_edge") || size->has("max_height") || size->has("max_width")) {
      throw_unavailable(
          *size,
          "only shortest_edge, or height and width, are supported by this build; set one of them");
    }
    spec.shortest_edge_px = require_edge(*size, "shortest_edge");
  }
}

void parse_resample(const JsonObject& config, vision::PreprocessSpec& spec) {
  const std::int64_t resample = config.get_int("resample", kBicubic, 0, 5);
  if (resample != kBilinear && resample != kBicubic) {
    throw_unavailable(config, "resample " + std::to_string(resample) +
                                  " is not supported by this build; 2 (bilinear) and 3 (bicubic) "
                                  "are; run another model");
  }
  spec.resample = resample == kBilinear ? vision::Resample::kBilinear : vision::Resample::kBicubic;
}

void parse_crop(const JsonObject& config, vision::PreprocessSpec& spec) {
  if (!config.has("crop_size")) return;
  if (const auto size = find_size_object(config, "crop_size")) {
    spec.crop_px = require_height_width(*size);
  } else {
    const int edge = require_edge(config, "crop_size");
    spec.crop_px = {edge, edge};
  }
}

void parse_channels(const JsonObject& config, std::string_view key, std::array<float, 3>& out) {
  const std::vector<double> values = config.get_doubles(key);
  if (values.empty()) return;
  if (values.size() != out.size()) {
    fail_bad_file(config.name() + ": " + std::string(key) + " holds " +
                  counted(std::ssize(values), "value") +
                  "; one for each of red, green, blue was expected");
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
}

}  // namespace

PreprocessDefaults llava_next_video_preprocessing() {
  return {.spec = {.shortest_edge_px = 224, .crop_px = {224, 224}}};
}

PreprocessDefaults llava_onevision_preprocessing() {
  return {.spec = {.size_px = std::array{384, 384}, .do_center_crop = false}};
}

PreprocessDefaults internvl_preprocessing() {
  return {.spec = {.size_px = std::array{384, 384}, .do_center_crop = false},
          .number_is_square = true};
}

PreprocessDefaults qwen3_vl_preprocessing(const VisionSpec& tower) {
  return {.spec = {.smart = tower.resize,
                   .do_center_crop = false,
                   .mean = {0.5F, 0.5F, 0.5F},
                   .std = {0.5F, 0.5F, 0.5F}}};
}

PreprocessDefaults qwen2_5_vl_preprocessing(const VisionSpec& tower) {
  return {.spec = {.smart = tower.resize, .do_center_crop = false},
          .patch_px = 14,
          .reads_pixel_keys = true};
}

PreprocessDefaults qwen_vl_preprocessing(const VisionSpec& tower) {
  const bool is_qwen3 = tower.resize.value().counts_clip;
  return is_qwen3 ? qwen3_vl_preprocessing(tower) : qwen2_5_vl_preprocessing(tower);
}

PreprocessDefaults siglip_preprocessing() {
  return {.spec = {.size_px = std::array{224, 224},
                   .do_center_crop = false,
                   .mean = {0.5F, 0.5F, 0.5F},
                   .std = {0.5F, 0.5F, 0.5F}},
          .number_is_square = true};
}

vision::PreprocessSpec parse_preprocess_spec(const JsonObject& config,
                                             const PreprocessDefaults& defaults) {
  vision::PreprocessSpec spec = defaults.spec;
  spec.do_resize = config.get_bool("do_resize", spec.do_resize);
  if (spec.smart && !spec.do_resize) {
    throw_unavailable(
        config, "do_resize false: the tower takes sizes in whole patches only; set it to true");
  }
  // The reference's processors of towers that take frames of any size do not crop.
  if (!spec.smart) {
    spec.do_center_crop = config.get_bool("do_center_crop", spec.do_center_crop);
  }
  spec.do_normalize = config.get_bool("do_normalize", spec.do_normalize);
  if (spec.do_resize) {
    parse_size(config, defaults, spec);
    parse_resample(config, spec);
  }
  if (spec.do_center_crop) parse_crop(config, spec);
  parse_channels(config, "image_mean", spec.mean);
  parse_channels(config, "image_std", spec.std);
  for (const float std : spec.std) {
    if (!(std > 0)) {
      fail_bad_file(config.name() + ": image_std must be positive, found " + json_number(std));
    }
  }

  const double rescale = config.get_double("rescale_factor", 1.0 / 255.0);
  if (!config.get_bool("do_rescale", true) || std::abs(rescale * 255.0 - 1.0) > 1e-9) {
    throw_unavailable(
        config, "only pixels rescaled by 1/255 are supported by this build; run another model");
  }
  // The reference's video processors do not read do_pad, which files of image processors have.
  return spec;
}

vision::PreprocessSpec read_preprocess_spec(const ModelFolder& folder,
                                            const PreprocessDefaults& defaults) {
  for (const std::string_view name :
       {"video_preprocessor_config.json", "preprocessor_config.json", "processor_config.json"}) {
    const std::optional<JsonObject> config = folder.find_json(name);
    if (!config) continue;
    if (const auto video = config->get_object("video_processor")) {
      return parse_preprocess_spec(*video, defaults);
    }
    // This file holds no preprocessing constants but those of video_processor.
    if (name == "processor_config.json") continue;
    return parse_preprocess_spec(*config, defaults);
  }
  throw Error(
      ErrorCode::kBadModel,
      folder.path().string() +
          ": neither video_preprocessor_config.json nor preprocessor_config.json is there; "
          "one of them must name the size and normalisation of the frames; copy or download it");
}

}  // namespace caption::model
