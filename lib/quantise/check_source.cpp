#include "quantise/check_source.h"

#include <cstddef>
#include <system_error>
#include <vector>

#include "model/read_blueprint.h"
#include "model/stored_names.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"

namespace caption::quantise {

void check_source(const std::filesystem::path& folder) {
  std::error_code ignored;
  const bool has_config = std::filesystem::exists(folder / "config.json", ignored);
  if (!has_config || weights::is_quantised_folder(folder)) return;
  const model::Blueprint blueprint = model::read_blueprint(folder);
  if (!blueprint.text.has_value() || !blueprint.vision.has_value()) return;
  weights::Checkpoint file = weights::Checkpoint::open(folder);
  const std::vector<model::StoredName> places = model::find_stored_names(blueprint, file);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const model::Parameter& parameter = blueprint.parameters[i];
    // A tied head has no tensor of its own.
    if (places[i].name.empty()) continue;
    file.read(places[i].name, model::tensor_shape(parameter, places[i]));
  }
}

}  // namespace caption::quantise
