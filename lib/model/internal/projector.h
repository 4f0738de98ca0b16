// model/internal/projector.h: the projectors of composed models, recognised by the tensors in their
// file. Each kind has a file of its own that reads its dimensions and adds its parameters.
//
// mlp                  linear layers with an activation between every two, by any names
// perceiver_resampler  learned latents that attend to the rows of a frame and to each other
//                      (arXiv:2204.14198), by the names of OpenFlamingo or of Idefics2
// c_abstractor         convolutional stages around an average pooling (arXiv:2312.06742), by the
//                      names of Honeybee
// docs/models.md lists the names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/blueprint.h"
#include "model/caption_model.h"
#include "weights/source.h"

namespace caption::model {

// The names and shapes of the tensors in a projector's file.
class ProjectorFile {
 public:
  // Throws as Source::shape().
  explicit ProjectorFile(const weights::Source& source);

  const std::string& path() const { return path_; }
  const std::map<std::string, Shape, std::less<>>& tensors() const { return tensors_; }
  bool has(std::string_view name) const { return tensors_.contains(name); }
  // Returns the shape of a tensor; throws Error(kBadModel) when it is missing or of another rank.
  Shape require(std::string_view name, int rank) const;
  // Returns a linear layer stem + "weight" [out, in], with a bias if the file has one.
  LinearSpec require_linear(const std::string& stem) const;

 private:
  std::string path_;
  std::map<std::string, Shape, std::less<>> tensors_;
};

// What a file holds, besides the dimensions.
struct ProjectorNames {
  std::string prefix;              // prefix of all tensors' names
  std::vector<std::string> stems;  // names of the layers of VisionSpec::projector
};

// The mark of a kind: the prefix of its tensors; nullopt when the file is of another kind.
std::optional<std::string> find_perceiver(const ProjectorFile& file);
std::optional<std::string> find_c_abstractor(const ProjectorFile& file);

// These set the dimensions of the projector in `vision`, whose tower is complete. Throw
// Error(kBadModel) for tensors that do not belong together, and kUnavailable for what this build
// cannot run; both name file and tensor.
ProjectorNames read_mlp(const ProjectorFile& file, const std::string& prefix,
                        std::int64_t text_hidden, VisionSpec& vision);
ProjectorNames read_perceiver(const ProjectorFile& file, const ProjectorOptions& options,
                              std::int64_t text_hidden, VisionSpec& vision);
ProjectorNames read_c_abstractor(const ProjectorFile& file, const ProjectorOptions& options,
                                 std::int64_t text_hidden, VisionSpec& vision);

// These add the parameters, except for the layers of VisionSpec::projector.
void add_perceiver(Blueprint& blueprint, const VisionSpec& vision, const ProjectorNames& names,
                   std::int32_t source);
void add_c_abstractor(Blueprint& blueprint, const VisionSpec& vision, const ProjectorNames& names,
                      std::int32_t source);

// Finds out the kind, unless `options` name it, and sets the dimensions. Without a file it is
// linear, activation, linear, and any other kind is refused. Throws Error(kBadPreset) for an option
// that the projector does not read.
ProjectorNames read_projector(const ProjectorFile* file, const ProjectorOptions& options,
                              std::int64_t text_hidden, VisionSpec& vision);
// Adds all parameters of the projector that read_projector() found.
void add_found_projector(Blueprint& blueprint, const VisionSpec& vision,
                         const ProjectorNames& names, std::int32_t source);

}  // namespace caption::model
