#include "model/internal/placed_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/file_codes.h"
#include "model/internal/placed_rows.h"
#include "model/internal/placing_order.h"
#include "model/internal/placing_threads.h"
#include "model/internal/reading_ahead.h"
#include "model/internal/unused_tensors.h"
#include "model/stored_names.h"
#include "tensor/dtype.h"
#include "weights/code_format.h"
#include "weights/quantise.h"

namespace caption::model {
namespace {

ConstView read_floating(weights::Source& source, const Parameter& parameter,
                        const StoredName& where) {
  const std::string& name = where.name;
  const ConstView tensor = source.read(name, tensor_shape(parameter, where));
  const DType dtype = tensor.dtype();
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Error(ErrorCode::kBadModel, source.name() + ": tensor " + name + " holds " +
                                          std::string(dtype_name(dtype)) +
                                          "; weights of f32, bf16 or f16 were expected: save the "
                                          "model again in one of them");
  }
  return where.tensor_rows == 0 ? tensor : tensor.rows(where.first_row, parameter.rows());
}

kernels::Weight place_in(Stream& stream, ConstView rows, MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kStored: return kernels::place_stored(stream, rows);
    case MatrixFormat::kBF16: return kernels::place_bf16(stream, rows);
    case MatrixFormat::kInt8:
    case MatrixFormat::kInt8Row:
    case MatrixFormat::kE4M3Row:
    case MatrixFormat::kInt4:
    case MatrixFormat::kInt4A8:
    case MatrixFormat::kNf4:
      return kernels::place_quantised(stream, format, rows.dim(0),
                                      [&](std::int64_t first, std::int64_t count) {
                                        return weights::quantise(rows.rows(first, count), format);
                                      });
    case MatrixFormat::kF16:
    case MatrixFormat::kNf4Double:
    case MatrixFormat::kAwq: break;
  }
  CAPTION_CHECK(false, "weights: a form that no model is held in");
}

bool is_equal(ConstView a, ConstView b) {
  if (a.shape() != b.shape()) return false;
  return dispatch_float(a.dtype(), [&](auto tag_a) {
    const auto* const first = a.as<decltype(tag_a)>();
    return dispatch_float(b.dtype(), [&](auto tag_b) {
      return std::equal(first, first + a.num_elements(), b.as<decltype(tag_b)>(),
                        [](auto x, auto y) { return to_float(x) == to_float(y); });
    });
  });
}

// Throws for an adapter that holds another weight than the model's.
void check_base(ConstView weight, const LoraTerm& term) {
  if (is_equal(weight, *term.base)) return;
  throw Error(ErrorCode::kUnavailable,
              "an adapter holds a changed weight (" + term.module +
                  ".base_layer.weight), which this build does not take; merge the adapter where it "
                  "was trained (merge_and_unload() of peft)");
}

bool is_quantised(MatrixFormat format) {
  return format != MatrixFormat::kStored && format != MatrixFormat::kBF16;
}

// Returns where the file has what is read when the parameter is placed on the stream's device; none
// where that is little or nothing.
std::vector<std::span<const std::byte>> bytes_to_place(const Stream& stream,
                                                       const weights::Source& source,
                                                       const Parameter& parameter,
                                                       const std::string& tensor,
                                                       weights::WeightFormat format) {
  const bool is_borrowed =
      parameter.role == Role::kEmbedding || format == weights::WeightFormat::kF32;
  if (stream.device() == Device::kCpu && !parameter.codes && is_borrowed) return {};
  return source.mapped_bytes(tensor);
}

bool is_of_decoder(Role role) { return role == Role::kDecoderLinear || role == Role::kHead; }

// Whether a kernel multiplies by the codes of such a matrix.
bool is_multiplied(Role role) {
  return role == Role::kHead || role == Role::kDecoderLinear || role == Role::kEncoderLinear;
}

// Lets the codes that the format does not keep be read as numbers.
void forget_other_codes(Blueprint& stored, weights::WeightFormat format) {
  for (Parameter& parameter : stored.parameters) {
    if (parameter.codes && !keeps_codes(format, *parameter.codes)) parameter.codes.reset();
  }
}

// Returns the parameter's rows as the source has them; borrows the arguments.
kernels::QuantisedRows rows_of_codes(const weights::Source& source, const Parameter& parameter,
                                     const StoredName& where) {
  const Shape shape = tensor_shape(parameter, where);
  const auto read = [&, shape](std::int64_t first, std::int64_t count) {
    return source.read_codes(where.name, shape, where.first_row + first, count);
  };
  const auto borrow = [&, shape](std::int64_t first, std::int64_t count) {
    return source.borrow_codes(where.name, shape, where.first_row + first, count);
  };
  return {read, borrow};
}

void require_no_further_layer(const Blueprint& blueprint, const weights::Source& source,
                              const std::string& prefix) {
  const std::string layer = "layers." + std::to_string(blueprint.text->num_layers) + ".";
  if (!source.has(prefix + layer + "input_layernorm.weight")) return;
  throw Error(ErrorCode::kBadModel,
              source.name() + ": has tensors of " + prefix + layer +
                  "*, but num_hidden_layers is " + std::to_string(blueprint.text->num_layers) +
                  "; the configuration is another model's: download the folder again");
}

std::int64_t count_bytes(const std::vector<std::span<const std::byte>>& parts) {
  return std::accumulate(
      parts.begin(), parts.end(), std::int64_t{0},
      [](std::int64_t sum, std::span<const std::byte> part) { return sum + std::ssize(part); });
}

// Elements of a matrix that all threads place together: it takes long beside the rest of a model.
constexpr std::int64_t kSharedElements = std::int64_t{128} << 20;

}  // namespace

bool is_beside(const ModelAdapter& adapter, const Parameter& parameter,
               weights::WeightFormat format) {
  const Role role = parameter.role;
  return !adapter.name.empty() ||
         (is_of_decoder(role) &&
          (parameter.codes || is_quantised(matrix_format(format_beside_codes(format), role))));
}

void find_stored_codes(Blueprint& blueprint, const weights::Source& source, std::int32_t index) {
  std::int32_t group = -1;
  GroupNames names;
  for (Parameter& parameter : blueprint.parameters) {
    const ParameterGroup& owner = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    if (owner.source != index) continue;
    if (std::exchange(group, parameter.group) != parameter.group) {
      names = find_group_names(source, owner.prefixes, parameter);
    }
    const StoredName where = names.of(parameter);
    if (is_multiplied(parameter.role)) {
      parameter.codes = source.codes_of(where.name);
      parameter.e4m3 = source.e4m3_of(where.name);
    }
    parameter.stored = source.dtype_of(where.name);
  }
}

PlacedWeights::PlacedWeights(Stream& stream, const Blueprint& blueprint,
                             std::vector<std::unique_ptr<weights::Source>> sources,
                             weights::WeightFormat format, std::span<const ModelAdapter> adapters,
                             const PlaceOptions& options)
    : device_(stream.device()),
      format_(format_beside_codes(format)),
      cancelled_(options.cancelled),
      sources_(std::move(sources)) {
  if (const auto obstacle = weights::find_obstacle(stream.context(), format)) {
    throw Error(ErrorCode::kUnavailable, *obstacle);
  }
  // Whether an adapter's term is merged depends on how the weight is held.
  Blueprint stored = blueprint;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    find_stored_codes(stored, *sources_[i], static_cast<std::int32_t>(i));
  }
  require_file_codes(sources_.back()->name(), stored, format);
  keep_e4m3(stream.context(), format_, stored);
  if (options.requantises) forget_other_codes(stored, format_);
  for (const ModelAdapter& adapter : adapters) bind(stream, stored, adapter, options.opening);
  std::int32_t group = -1;
  GroupNames names;
  std::vector<StoredName> places;
  std::vector<std::vector<std::string>> used(sources_.size());
  bool is_complete = true;
  const auto source_of = [&](const Parameter& parameter) {
    const auto of_group = static_cast<std::size_t>(parameter.group);
    return static_cast<std::size_t>(blueprint.groups[of_group].source);
  };
  for (const Parameter& parameter : blueprint.parameters) {
    const ParameterGroup& owner = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    weights::Source& source = *sources_.at(source_of(parameter));
    if (std::exchange(group, parameter.group) != parameter.group) {
      names = find_group_names(source, owner.prefixes, parameter);
      if (owner.part == Part::kDecoder) require_no_further_layer(blueprint, source, names.prefix);
    }
    places.push_back(names.of(parameter));
    used[source_of(parameter)].push_back(places.back().name);
    is_complete = is_complete && source.has(places.back().name);
  }
  // A tensor that is missing is named when it is read.
  if (is_complete) check_unused_tensors(blueprint, sources_, used);
  place_all(stream, stored, places);
  for (const Placed& placed : placed_) size_bytes_ += placed.size_bytes();
  merged_ = with_base_ = {};
}

void PlacedWeights::place_all(Stream& stream, const Blueprint& stored,
                              const std::vector<StoredName>& places) {
  const auto source_of = [&](const Parameter& parameter) -> weights::Source& {
    const auto of_group = static_cast<std::size_t>(parameter.group);
    return *sources_[static_cast<std::size_t>(stored.groups[of_group].source)];
  };
  std::vector<std::vector<std::span<const std::byte>>> bytes;
  std::vector<TensorToPlace> tensors;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Parameter& parameter = stored.parameters[i];
    const weights::Source& source = source_of(parameter);
    bytes.push_back(bytes_to_place(stream, source, parameter, places[i].name, format_));
    tensors.push_back(
        {.is_stored = source.shape(places[i].name) == tensor_shape(parameter, places[i]),
         .size_bytes = count_bytes(bytes.back())});
  }
  const std::vector<std::size_t> order = placing_order(tensors);
  std::vector<std::vector<std::span<const std::byte>>> in_order;
  for (const std::size_t i : order) in_order.push_back(std::move(bytes[i]));
  placed_.resize(places.size());
  ReadingAhead ahead(in_order);
  const auto place_one = [&](Stream& of_thread, std::size_t at) {
    ahead.keep_ahead_of(at);
    const std::size_t i = order[at];
    const Parameter& parameter = stored.parameters[i];
    place(of_thread, static_cast<ParameterId>(i), parameter, source_of(parameter), places[i]);
  };
  const auto is_shared = [&](std::size_t at) {
    const std::size_t i = order[at];
    const Parameter& parameter = stored.parameters[i];
    return takes_all_threads(static_cast<ParameterId>(i), parameter, source_of(parameter),
                             places[i]);
  };
  PlacingThreads threads(stream);
  for (std::size_t i = 0; i < places.size();) {
    const std::size_t begin = i;
    while (i < places.size() && !is_shared(i)) ++i;
    threads.place_side_by_side(begin, i, place_one);
    if (i < places.size()) place_one(stream, i++);
  }
  threads.finish();
  used_pages_.release();
}

bool PlacedWeights::takes_all_threads(ParameterId id, const Parameter& parameter,
                                      const weights::Source& source,
                                      const StoredName& where) const {
  const std::int64_t stored_bytes = count_bytes(source.mapped_bytes(where.name));
  if (stored_bytes == 0) return true;  // a source that computes numbers does so on all threads
  if (parameter.role == Role::kVector) return false;
  const std::int64_t elements = parameter.rows() * parameter.columns();
  if (merged_.contains(id) || with_base_.contains(id) || elements >= kSharedElements) return true;
  if (parameter.codes) return false;
  // Rows that are decoded and rounded some at a time need little memory.
  if (device_ == Device::kCpu && is_rounded_by_rows(parameter, source, where)) return false;
  // Codes that are not kept are decoded into memory, which parameters of one tensor share. Numbers
  // have two bytes in a file, or four.
  return where.tensor_rows != 0 || stored_bytes < 2 * elements;
}

void PlacedWeights::place(Stream& stream, ParameterId id, const Parameter& parameter,
                          weights::Source& source, const StoredName& where) {
  if (cancelled_ != nullptr && cancelled_->load()) {
    throw Error(ErrorCode::kCancelled,
                source.name() + ": interrupted while its weights were loaded");
  }
  const std::string& name = where.name;
  Placed& placed = placed_[static_cast<std::size_t>(id)];
  if (parameter.codes) {
    require_kept_codes(format_, *parameter.codes, source.name() + ": tensor " + name);
    const bool is_e4m3 = parameter.e4m3 && format_ != weights::WeightFormat::kFp8;
    // An adapter's copy of the weight is compared with the decoded numbers, which are then placed.
    const bool is_compared = is_e4m3 && with_base_.contains(id);
    if (!merged_.contains(id) && !is_compared) {
      const kernels::QuantisedRows rows = rows_of_codes(source, parameter, where);
      const MatrixFormat format = weights::code_format(format_, *parameter.codes);
      placed.matrix = is_e4m3 ? kernels::place_e4m3(stream, parameter.rows(), rows)
                              : kernels::place_quantised(stream, format, parameter.rows(), rows);
      release_codes(source, name);
      return;
    }
  }
  if (is_rounded_by_rows(parameter, source, where)) {
    placed.rows = round_decoded_rows(stream, source, name, parameter.shape);
    placed.matrix = std::as_const(placed.rows).view();
    release_codes(source, name);
    return;
  }
  const ConstView file = read(source, parameter, where);
  bool is_borrowed = false;
  if (parameter.role == Role::kVector || parameter.role == Role::kEmbedding) {
    const ConstView rows = place_rows(stream, file, placed.rows);
    is_borrowed = rows.raw() == file.raw();
    if (parameter.role == Role::kVector) {
      placed.vector = rows;
    } else {
      placed.matrix = rows;
    }
  } else {
    try {
      placed.matrix = place_matrix(stream, id, parameter,
                                   file.reshape({parameter.rows(), parameter.columns()}));
    } catch (const Error& error) {
      throw Error(error.code(), source.name() + ": tensor " + name + ": " + error.what());
    }
    // A merged matrix is borrowed from Placed::rows, not from the file.
    is_borrowed = placed.matrix.is_borrowed() && !merged_.contains(id);
  }
  if (!is_borrowed) release(source, name);
}

ConstView PlacedWeights::read(weights::Source& source, const Parameter& parameter,
                              const StoredName& where) {
  const std::lock_guard lock(*sources_mutex_);
  return read_floating(source, parameter, where);
}

void PlacedWeights::release(weights::Source& source, const std::string& name) {
  const std::lock_guard lock(*sources_mutex_);
  source.release(name);
}

void PlacedWeights::release_codes(const weights::Source& source, const std::string& name) {
  const std::lock_guard lock(*sources_mutex_);
  for (const std::span<const std::byte> bytes : source.mapped_bytes(name)) {
    used_pages_.add(bytes);
  }
}

kernels::Weight PlacedWeights::place_matrix(Stream& stream, ParameterId id,
                                            const Parameter& parameter, ConstView rows) {
  const MatrixFormat format = weights::matrix_format(format_, parameter.role);
  if (const auto found = with_base_.find(id); found != with_base_.end()) {
    for (const LoraTerm& term : found->second) check_base(rows, term);
  }
  const auto terms = merged_.find(id);
  if (terms == merged_.end()) return place_in(stream, rows, format);
  Tensor& merged = placed_[static_cast<std::size_t>(id)].rows;
  merged = merge(stream, rows, terms->second);
  kernels::Weight weight = place_in(stream, std::as_const(merged).view(), format);
  if (!weight.is_borrowed()) merged = Tensor();
  return weight;
}

// Decides for each term whether it is merged or applied by the decoder.
void PlacedWeights::bind(Stream& stream, const Blueprint& blueprint, const ModelAdapter& adapter,
                         Opening opening) {
  AdapterTerms terms;
  for (const BoundTerm& bound : bind_terms(adapter.adapter, blueprint, adapter.source)) {
    const Parameter& parameter = blueprint.parameters[static_cast<std::size_t>(bound.parameter)];
    if (!adapter.name.empty() && !is_of_decoder(parameter.role)) {
      throw Error(ErrorCode::kUnavailable,
                  adapter.adapter.folder().string() + ": adapts " + bound.term.module +
                      " of tower or projector; an adapter that clips or prompts choose by its "
                      "name may change the language model only; give it without a name");
    }
    if (bound.term.base.has_value()) with_base_[bound.parameter].push_back(bound.term);
    if (is_beside(adapter, parameter, format_)) {
      terms.add(stream, bound.parameter, bound.term);
    } else if (opening == Opening::kToRun) {
      merged_[bound.parameter].push_back(bound.term);
    }
  }
  size_bytes_ += terms.size_bytes();
  if (!adapter.name.empty()) {
    adapters_.chosen.push_back(std::move(terms));
  } else if (!terms.empty()) {
    adapters_.always.push_back(std::move(terms));
  }
}

std::int64_t PlacedWeights::Placed::size_bytes() const {
  if (vector.empty()) return matrix.size_bytes();
  return vector.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(vector.dtype()));
}

ConstView PlacedWeights::place_rows(Stream& stream, ConstView file, Tensor& rows) const {
  const bool is_rounded = format_ != weights::WeightFormat::kF32 && file.dtype() != DType::kBF16;
  if (!is_rounded && device_ == Device::kCpu) return file;
  const DType dtype = is_rounded ? DType::kBF16 : file.dtype();
  rows = convert_rows(stream, file, dtype);
  return std::as_const(rows).view();
}

bool PlacedWeights::is_rounded_by_rows(const Parameter& parameter, const weights::Source& source,
                                       const StoredName& where) const {
  return parameter.role == Role::kEmbedding && format_ != weights::WeightFormat::kF32 &&
         where.tensor_rows == 0 && source.has_decodable_rows(where.name) &&
         source.shape(where.name) == parameter.shape;
}

}  // namespace caption::model
