#include "model/adapter_load.h"

#include <algorithm>

#include "kernels/weight.h"
#include "model/internal/placed_weights.h"

namespace caption::model {
namespace {

void add_adapter(const Context& context, const Blueprint& blueprint, weights::WeightFormat format,
                 const ModelAdapter& adapter, AdapterLoad& load, double& multiply_adds) {
  for (const BoundTerm& bound : bind_terms(adapter.adapter, blueprint, adapter.source)) {
    const Parameter& parameter = blueprint.parameters[static_cast<std::size_t>(bound.parameter)];
    if (!is_beside(adapter, parameter, format)) continue;
    const ConstView a = bound.term.a;
    const ConstView b = bound.term.b;
    load.size_bytes +=
        kernels::placed_bytes(context, a.dim(0), a.dim(1), MatrixFormat::kStored, a.dtype()) +
        kernels::placed_bytes(context, b.dim(0), b.dim(1), MatrixFormat::kStored, DType::kF32);
    load.max_rank = std::max(load.max_rank, a.dim(0));
    multiply_adds += static_cast<double>(a.num_elements() + b.num_elements());
  }
}

}  // namespace

AdapterLoad measure_adapters(const Context& context, const Blueprint& of_files,
                             weights::WeightFormat format, const std::vector<InnerAdapter>& inner,
                             const std::vector<AdapterSource>& adapters) {
  Blueprint blueprint = of_files;
  keep_e4m3(context, format, blueprint);
  AdapterLoad load;
  double always = 0;
  double most_chosen = 0;
  for (const InnerAdapter& found : inner) {
    if (!holds_adapter(found.folder)) continue;
    const ModelAdapter adapter{
        .adapter = Adapter::open(found.folder), .name = {}, .source = found.source};
    add_adapter(context, blueprint, format, adapter, load, always);
  }
  for (const AdapterSource& source : adapters) {
    const ModelAdapter adapter{
        .adapter = Adapter::open(source.folder), .name = source.name, .source = std::nullopt};
    double multiply_adds = 0;
    add_adapter(context, blueprint, format, adapter, load, multiply_adds);
    if (source.name.empty()) {
      always += multiply_adds;
    } else {
      most_chosen = std::max(most_chosen, multiply_adds);
    }
  }
  load.multiply_adds_per_token = always + most_chosen;
  return load;
}

}  // namespace caption::model
