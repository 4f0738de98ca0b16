// drafts/layer_choice.h: the layers that the engines of a run leave out when they guess, once they
// are known.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "drafts/layer_search.h"

namespace caption::drafts {

// The file of a model's folder that keeps its layers for later runs (config/self_draft.h). It is no
// part of the model's checkpoint.
inline constexpr std::string_view kLayerFileName = "self-draft.json";

// Several engines share one: what the first of them finds, all use. Thread-safe.
class LayerChoice {
 public:
  // With `known`, nothing is searched for. `on_made` is called with what an engine has found; may
  // be empty.
  explicit LayerChoice(std::optional<LeftOutLayers> known = std::nullopt,
                       std::function<void(const LeftOutLayers&)> on_made = {})
      : made_(std::move(known)), on_made_(std::move(on_made)) {}

  std::optional<LeftOutLayers> get() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }
  // The same, without layers that were known at construction.
  std::optional<LeftOutLayers> found() const {
    const std::lock_guard lock(mutex_);
    return is_found_ ? made_ : std::nullopt;
  }
  // A choice that was made before stays.
  void make(const LeftOutLayers& layers) {
    const std::lock_guard lock(mutex_);
    if (made_.has_value()) return;
    made_ = layers;
    is_found_ = true;
    if (on_made_) on_made_(layers);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<LeftOutLayers> made_;
  bool is_found_ = false;  // make() has set made_
  std::function<void(const LeftOutLayers&)> on_made_;
};

}  // namespace caption::drafts
