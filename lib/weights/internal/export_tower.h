// weights/internal/export_tower.h: what config.json and the processor's files say of a vision tower
// that becomes a GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "weights/gguf_writer.h"
#include "weights/internal/export_config.h"

namespace caption::weights {

struct ExportedTower {
  std::string projector_type;         // as the file names it: "qwen3vl_merger"
  std::int64_t num_layers = 0;        // those that the file has
  std::vector<std::int64_t> mergers;  // qwen3_vl: the layer after which each stands
};

// Reads the tower of a captioner and adds its keys "clip.*". Throws as read_exported_model().
ExportedTower read_exported_tower(const ExportedModel& model, const std::filesystem::path& folder,
                                  GgufFields& fields);

}  // namespace caption::weights
