// model/vit_blueprint.h: the parameters of vision transformers of fixed-size frames, with their
// names in the files.
//
// Each function sets spec and ids of `blueprint` and adds the parameters up to the last layer that
// runs. `source` is the index of their weight file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blueprint.h"

namespace caption::model {

// CLIP and SigLIP: "embeddings.patch_embedding.weight", "encoder.layers.0.self_attn.q_proj.weight".
void add_clip_tower(Blueprint& blueprint, const VisionSpec& spec, std::vector<std::string> prefixes,
                    std::int32_t source = 0);

// InternViT: "embeddings.patch_embeddings.projection.weight",
// "encoder.layer.0.attention.q_proj.weight"; in the layout of internvl_chat repositories
// "embeddings.patch_embedding.weight", "encoder.layers.0.attn.qkv.weight" (the rows of q, k and v).
void add_intern_vit(Blueprint& blueprint, const VisionSpec& spec, std::vector<std::string> prefixes,
                    std::int32_t source = 0);
// The projector of InternVL: "layer_norm.weight", "linear_1.weight", "linear_2.weight"; in the
// other layout "0.weight", "1.weight", "3.weight". Needs spec.projector_norm and two layers.
void add_intern_projector(Blueprint& blueprint, const VisionSpec& spec,
                          std::vector<std::string> prefixes, std::int32_t source = 0);

// Returns the blueprint of a CLIP or SigLIP tower alone, with empty prefixes.
Blueprint clip_tower_blueprint(const VisionSpec& spec);

}  // namespace caption::model
