#include "quantise/internal/decoder_layers.h"

#include <map>
#include <span>

#include "base/error.h"
#include "model/stored_names.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {
namespace {

// Finds the names of parameters in the file, and refuses a tensor that is met twice.
class Names {
 public:
  Names(const model::Blueprint& blueprint, const weights::Checkpoint& source)
      : blueprint_(blueprint),
        source_(source),
        places_(model::find_stored_names(blueprint, source)) {}

  std::string of(model::ParameterId id) {
    if (id == model::kNoParameter) return {};
    const auto at = static_cast<std::size_t>(id);
    const model::StoredName& place = places_[at];
    const bool is_part =
        place.tensor_rows > 0 && place.tensor_rows != blueprint_.parameters[at].rows();
    if (is_part || ++uses_[place.name] > 1) {
      throw Error(ErrorCode::kUnavailable,
                  source_.where(place.name) +
                      " holds several parameters of the decoder, which --calibrate cannot change "
                      "one by one; leave --calibrate out");
    }
    return place.name;
  }

 private:
  const model::Blueprint& blueprint_;
  const weights::Checkpoint& source_;
  std::vector<model::StoredName> places_;
  std::map<std::string, int> uses_;
};

Tensor read_tensor(const weights::Checkpoint& source, const std::string& name) {
  if (name.empty()) return {};
  const auto found = source.find(name);
  if (!found) {
    throw Error(ErrorCode::kBadModel,
                source.name() + ": has no tensor \"" + name + "\"; download the folder again");
  }
  try {
    return to_f32(*found);
  } catch (const Error& error) {
    throw Error(error.code(), source.where(name) + ": " + error.what());
  }
}

model::DenseView dense_of(const LayerWeights& layer, MatrixIndex matrix) {
  const Tensor& bias = layer.biases[matrix];
  return {.weight = layer.matrices[matrix].view(),
          .bias = bias.empty() ? ConstView{} : bias.view()};
}

ConstView vector_of(const Tensor& tensor) { return tensor.empty() ? ConstView{} : tensor.view(); }

}  // namespace

std::vector<std::string> LayerNames::all() const {
  std::vector<std::string> names;
  for (const std::string& name : {input_norm, q_norm, k_norm, post_attention_norm}) {
    if (!name.empty()) names.push_back(name);
  }
  for (const auto& list : {matrices, biases}) {
    for (const std::string& name : list) {
      if (!name.empty()) names.push_back(name);
    }
  }
  return names;
}

std::vector<LayerNames> name_layers(const model::Blueprint& blueprint,
                                    const weights::Checkpoint& source) {
  Names names(blueprint, source);
  std::vector<LayerNames> layers;
  for (const model::DecoderLayerIds& ids : blueprint.decoder.layers) {
    LayerNames& layer = layers.emplace_back();
    layer.input_norm = names.of(ids.input_norm);
    layer.q_norm = names.of(ids.q_norm);
    layer.k_norm = names.of(ids.k_norm);
    layer.post_attention_norm = names.of(ids.post_attention_norm);
    const model::LinearIds linears[] = {ids.q, ids.k, ids.v, ids.o, ids.gate, ids.up, ids.down};
    for (std::size_t i = 0; i < kNumMatrices; ++i) {
      layer.matrices[i] = names.of(linears[i].weight);
      layer.biases[i] = names.of(linears[i].bias);
    }
  }
  return layers;
}

model::DecoderLayerViews LayerWeights::views() const {
  return {.input_norm = input_norm.view(),
          .q = dense_of(*this, kQ),
          .k = dense_of(*this, kK),
          .v = dense_of(*this, kV),
          .o = dense_of(*this, kO),
          .q_norm = vector_of(q_norm),
          .k_norm = vector_of(k_norm),
          .post_attention_norm = post_attention_norm.view(),
          .gate = dense_of(*this, kGate),
          .up = dense_of(*this, kUp),
          .down = dense_of(*this, kDown)};
}

LayerWeights read_layer(const weights::Checkpoint& source, const LayerNames& names,
                        const OnWork& on_work) {
  LayerWeights layer{.input_norm = read_tensor(source, names.input_norm),
                     .q_norm = read_tensor(source, names.q_norm),
                     .k_norm = read_tensor(source, names.k_norm),
                     .post_attention_norm = read_tensor(source, names.post_attention_norm),
                     .matrices = {},
                     .biases = {}};
  for (std::size_t i = 0; i < kNumMatrices; ++i) {
    layer.matrices[i] = read_tensor(source, names.matrices[i]);
    layer.biases[i] = read_tensor(source, names.biases[i]);
    report_work(on_work, 0);
  }
  return layer;
}

Tensor to_f32(ConstView view) {
  if (view.dtype() != DType::kF32 && view.dtype() != DType::kBF16 && view.dtype() != DType::kF16) {
    throw Error(
        ErrorCode::kBadModel,
        "holds " + std::string(dtype_name(view.dtype())) +
            "; weights of f32, bf16 or f16 were expected: save the model again in one of them");
  }
  Tensor numbers(DType::kF32, view.shape());
  read_numbers(view, 0,
               std::span(numbers.as<float>(), static_cast<std::size_t>(numbers.num_elements())));
  return numbers;
}

}  // namespace caption::quantise
