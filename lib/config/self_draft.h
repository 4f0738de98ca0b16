// config/self_draft.h: which layers self-drafts leave out (engine/self_draft.h), kept between runs
// in a small JSON file beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/sha256.h"
#include "config/load_preset.h"
#include "config/locations.h"
#include "config/preset.h"
#include "drafts/layer_choice.h"
#include "model/caption_model.h"

namespace caption::config {

// The layers left out of the decoder of one model.
struct KeptLayers {
  Sha256 model_hash;            // CaptionModel::content_hash()
  std::int64_t num_layers = 0;  // layers that the whole decoder has
  drafts::LeftOutLayers left_out;
};

// Throws Error(kBadPreset), naming the file and what is wrong in it, for a file that is broken,
// or leaves out all layers or such as the decoder has not; kIo.
KeptLayers read_layers(const std::filesystem::path& path);
// Makes the file's folder and replaces the file. Throws as write_file_atomically().
void write_layers(const KeptLayers& layers, const std::filesystem::path& path);

// The files of a model in which its layers are looked for and, the first that can be written, kept:
// self-draft.json in its folder, or FILE.self-draft.json beside a model that is a file, unless it
// is the demonstration model, which comes with the program; and, named after its hash, in
// Locations::self_drafts. The folder of a composed model is that of its language model.
std::vector<std::filesystem::path> layer_files(const Preset& preset, const Locations& locations,
                                               const Sha256& model_hash, bool is_demonstration);

// What a run with self-drafts begins with: the layers that the first of layer_files() of this model
// names; without one, they are searched for, and what is found is written. Logs one line for what
// is known or found, one for each file that is broken or of another model, which is then replaced,
// and one if none can be written. Null without self-drafts.
std::shared_ptr<drafts::LayerChoice> open_layer_choice(const LoadedPreset& loaded,
                                                       model::CaptionModel& model,
                                                       const Sha256& model_hash);

}  // namespace caption::config
