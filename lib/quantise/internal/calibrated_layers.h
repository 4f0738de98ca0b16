// quantise/internal/calibrated_layers.h: the layers of a calibrated checkpoint, made one after
// another. Each becomes a file of its own in the output folder, which is complete when the manifest
// names it; a later call keeps such files, and only moves the hidden states through their layers.
// The files are removed when the checkpoint is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "quantise/internal/checkpoint_plan.h"
#include "quantise/internal/hidden_states.h"
#include "quantise/internal/layer_solver.h"
#include "quantise/internal/output_folder.h"
#include "quantise/quantise_checkpoint.h"

namespace caption::quantise {

// What is borrowed for the whole call.
struct CalibratedSource {
  const QuantiseOptions& options;
  const model::Blueprint& blueprint;
  weights::Checkpoint& checkpoint;
  const CheckpointPlan& plan;
  const Format& format;
};

class CalibratedLayers {
 public:
  // Throws Error(kUnavailable) for a decoder whose layers share tensors.
  CalibratedLayers(Stream& stream, const CalibratedSource& source);

  std::vector<std::string> files() const;  // the names of the layers' files
  // Whether a tensor of the source is in the layers' files, changed.
  bool has(const std::string& part) const { return layer_of_.contains(part); }
  // Bytes in the source of the matrices of the layers that make() has to make.
  std::int64_t missing_bytes(const OutputFolder& folder) const;
  // Bytes of the tensors in the files that make() has to make.
  std::int64_t missing_file_bytes(const OutputFolder& folder) const;
  std::int64_t num_layers() const { return std::ssize(layers_); }
  // Makes the files that are missing, in the order of the layers; calls on_layer after each layer
  // with its bytes in the source, or with nullopt for one that an earlier call made and that only
  // the hidden states pass. Returns false when the call is stopped.
  bool make(OutputFolder& folder,
            const std::function<void(std::optional<std::int64_t> source_bytes)>& on_layer);
  // After make(): copies a tensor to the file of weights that holds it at last.
  void copy(const OutputFolder& folder, const std::string& part,
            weights::SafetensorsWriter& writer);
  void remove_files(OutputFolder& folder) const;

 private:
  // Returns false for a layer that an earlier call made.
  bool make_layer(std::size_t layer, HiddenStates& hidden, OutputFolder& folder);
  std::int64_t source_bytes(std::size_t layer) const;

  Stream& stream_;
  CalibratedSource source_;
  std::vector<LayerPlan> layers_;
  std::unique_ptr<LayerSolver> solver_;
  std::map<std::string, std::size_t> layer_of_;      // by the names of the output's tensors
  std::map<std::size_t, weights::Checkpoint> open_;  // the file that was copied from last
};

}  // namespace caption::quantise
