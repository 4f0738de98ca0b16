// quantise/internal/calibrated_layers.h: the layers of a calibrated checkpoint, made one after
// another. Each becomes a file of its own in the output folder, which is complete when the manifest
// names it; a later call keeps such files, and only moves the hidden states through their layers,
// as far as a later layer is missing. The files are removed when the checkpoint is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
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

struct LayersProgress {
  std::int64_t layers_done = 0;
  double layer_part = 0;       // share of the current layer's work that is done, 0 to 1
  std::int64_t work_done = 0;  // multiply-adds, see QuantiseProgress
  std::int64_t work_total = 0;
  std::int64_t work_us = 0;
};

class CalibratedLayers {
 public:
  // Throws Error(kUnavailable) for a decoder whose layers share tensors.
  CalibratedLayers(Stream& stream, const CalibratedSource& source);

  std::vector<std::string> files() const;  // the names of the layers' files
  // Whether a tensor of the source is in the layers' files, changed.
  bool has(const std::string& part) const { return layer_of_.contains(part); }
  // Bytes of the tensors in the files that make() has to make.
  std::int64_t missing_file_bytes(const OutputFolder& folder) const;
  std::int64_t num_layers() const { return std::ssize(layers_); }
  // Makes the files that are missing, in the order of the layers, and calls on_progress several
  // times within a layer and after it. Returns false when the call is stopped.
  bool make(OutputFolder& folder, const std::function<void(const LayersProgress&)>& on_progress);
  // After make(): copies a tensor to the file of weights that holds it at last.
  void copy(const OutputFolder& folder, const std::string& part,
            weights::SafetensorsWriter& writer);
  void remove_files(OutputFolder& folder) const;

 private:
  void make_layer(std::size_t layer, HiddenStates& hidden, OutputFolder& folder);
  // Finds the files that an earlier call made. Returns how many layers the hidden states have to
  // pass: up to the last one that has no file.
  std::size_t find_files(const OutputFolder& folder);
  // Returns the multiply-adds that a layer needs: to be made, or for the hidden states alone to
  // pass it if its file is found.
  std::int64_t work(std::size_t layer, const HiddenStates& hidden) const;
  bool is_stopped() const {
    return source_.options.stop != nullptr && source_.options.stop->load();
  }

  Stream& stream_;
  CalibratedSource source_;
  std::vector<LayerPlan> layers_;
  std::unique_ptr<LayerSolver> solver_;
  std::vector<bool> is_found_;  // whether an earlier call made the layer's file
  LayersProgress progress_;
  std::int64_t layer_begin_ = 0;                     // progress_.work_done before the layer
  std::int64_t layer_work_ = 0;                      // multiply-adds that the current layer needs
  std::map<std::string, std::size_t> layer_of_;      // keyed by the name of the output's tensor
  std::map<std::size_t, weights::Checkpoint> open_;  // the file that was copied from last
};

}  // namespace caption::quantise
