// model/internal/preprocessor_config.h: the preprocessing constants of a Hugging Face folder.
// Source: transformers LlavaNextVideoVideoProcessor, CLIPImageProcessor.
#pragma once

#include "base/json.h"
#include "model/internal/model_folder.h"
#include "model/vision_spec.h"
#include "vision/preprocess.h"

namespace caption::model {

// The class defaults of a video processor, for keys that the file lacks.
struct PreprocessDefaults {
  vision::PreprocessSpec spec;
  bool number_is_square =
      false;  // a plain number as `size` is height and width, not the short edge
  // With spec.smart only: the class default of patch_size, and whether min_pixels and max_pixels
  // count before the edges in `size`.
  int patch_px = 16;
  bool reads_pixel_keys = false;
};
PreprocessDefaults llava_next_video_preprocessing();  // shortest edge and crop of 224 pixels, CLIP
PreprocessDefaults llava_onevision_preprocessing();   // 384 x 384 pixels, CLIP's mean and deviation
PreprocessDefaults internvl_preprocessing();          // the same
// The limits of tower.resize, without a crop, 0.5.
PreprocessDefaults qwen3_vl_preprocessing(const VisionSpec& tower);
// The limits of tower.resize per frame, without a crop, CLIP's mean and deviation.
PreprocessDefaults qwen2_5_vl_preprocessing(const VisionSpec& tower);
// The one of these two whose limits count as those of tower.resize.
PreprocessDefaults qwen_vl_preprocessing(const VisionSpec& tower);
PreprocessDefaults siglip_preprocessing();  // 224 x 224 pixels, 0.5

// Reads the first that exists of video_preprocessor_config.json, preprocessor_config.json and
// processor_config.json. Only its object `video_processor` is read, if it has one, and nothing else
// of the last. Source: transformers 4.57.6 video_processing_utils.py. Throws Error(kBadModel) when
// there is no file or a value is impossible; kUnavailable for a resampling or rescaling other than
// the implemented one.
vision::PreprocessSpec read_preprocess_spec(
    const ModelFolder& folder,
    const PreprocessDefaults& defaults = llava_next_video_preprocessing());

// Parses the JSON object of one of these files.
vision::PreprocessSpec parse_preprocess_spec(
    const JsonObject& config,
    const PreprocessDefaults& defaults = llava_next_video_preprocessing());

}  // namespace caption::model
