// model/internal/placed_weights.h: the parameters of a blueprint, read from their sources and held
// in the form in which the kernels compute.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so on the CPU weights are used
// where they are mapped. WeightFormat::kF32 therefore means "the numbers of the file". kBF16 means
// "as if the file were bf16": f32 and f16 tensors are rounded, to nearest even. The quantised
// formats quantise the numbers of the file for the roles that weights::matrix_format() quantises;
// the other parameters are held as with kBF16. The form on the device is kernels/weight.h's.
//
// Matrices that a file holds as codes (AWQ, GPTQ, bitsandbytes, ...) keep these codes in kF32,
// kBF16 and the format of their own name; any other format rounds them a second time, and is
// refused unless that is asked for. Numbers of e4m3 (FP8) are kept as keep_e4m3() says, and are
// read as numbers of bf16 in the other formats.
//
// An adapter that applies to every request is merged into a weight before the weight is placed: W +
// s * B A, computed in f32. Matrices of a decoder that are held as codes stay as they are, and
// the decoder computes the adapter's term beside them (DecoderAdapters). So it does for adapters
// that requests choose. Matrices of tower and projector are merged in every format.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/stream.h"
#include "kernels/linear.h"
#include "kernels/weight.h"
#include "model/blueprint.h"
#include "model/caption_model.h"
#include "model/internal/adapter.h"
#include "model/internal/low_rank.h"
#include "model/internal/used_pages.h"
#include "tensor/tensor.h"
#include "weights/format.h"
#include "weights/source.h"

namespace caption::model {

using LinearWeights = kernels::BiasedWeight;  // weight [out, in], bias [out] or empty

struct NormWeights {
  ConstView weight;
  ConstView bias;
};

// An adapter of a model and the use of it.
struct ModelAdapter {
  Adapter adapter;
  std::string name = {};  // name by which requests choose it; empty: it applies to every request
  // If set, the adapter changes parameters of this weight file only (ParameterGroup::source).
  std::optional<std::int32_t> source = std::nullopt;
};

// Whether the decoder computes the adapter's term of a parameter beside the weight, in a model of
// this format; otherwise the term is merged into it.
bool is_beside(const ModelAdapter& adapter, const Parameter& parameter,
               weights::WeightFormat format);

// Sets Parameter::codes, e4m3 and stored of the parameters of the weight file `index`, which
// `source` reads. Throws Error(kBadModel) when the source has another model's tensors.
void find_stored_codes(Blueprint& blueprint, const weights::Source& source, std::int32_t index);

struct PlaceOptions {
  Opening opening = Opening::kToRun;
  bool requantises = false;                      // OpenOptions::requantises
  const std::atomic<bool>* cancelled = nullptr;  // OpenOptions::cancelled
};

// Immutable after construction, so any number of threads may read it.
class PlacedWeights {
 public:
  // Reads every parameter of the blueprint from sources[ParameterGroup::source] to the stream's
  // device, with the stream's threads. `adapters` are borrowed. Throws Error(kBadModel) naming the
  // tensor when it is missing, of another shape, not floating-point or, if it is quantised, not
  // finite, and the tensors that no parameter takes (internal/unused_tensors.h); kUnavailable for a
  // format that would round a file's codes unless it requantises, for an adapter with a name that
  // changes tower or projector, or with a changed weight of the base model; kCancelled
  // before the next parameter is read once `cancelled` is true; otherwise as Source::read() and
  // bind_terms(). With Opening::kToCheck no adapter is merged, and the weights
  // are not those of the adapted model.
  PlacedWeights(Stream& stream, const Blueprint& blueprint,
                std::vector<std::unique_ptr<weights::Source>> sources, weights::WeightFormat format,
                std::span<const ModelAdapter> adapters = {}, const PlaceOptions& options = {});

  // A parameter as a matrix [rows, columns]; not for Role::kVector.
  const kernels::Weight& matrix(ParameterId id) const { return at(id).matrix; }
  // A parameter of Role::kVector, in the shape of the file; empty for kNoParameter.
  ConstView vector(ParameterId id) const {
    return id == kNoParameter ? ConstView{} : at(id).vector;
  }
  LinearWeights linear(const LinearIds& ids) const {
    return {matrix(ids.weight), vector(ids.bias)};
  }
  NormWeights norm(const NormIds& ids) const { return {vector(ids.weight), vector(ids.bias)}; }

  Device device() const { return device_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // bytes of all parameters as held
  const std::vector<std::unique_ptr<weights::Source>>& sources() const { return sources_; }
  // The terms of the decoder's adapters that are not merged.
  const DecoderAdapters& adapters() const { return adapters_; }

 private:
  struct Placed {
    ConstView vector;
    kernels::Weight matrix;
    // Holds what `vector` or `matrix` borrows; empty where they borrow from the file or are packed.
    Tensor rows;

    std::int64_t size_bytes() const;
  };

  const Placed& at(ParameterId id) const { return placed_[static_cast<std::size_t>(id)]; }
  // Places parameter i of `stored` from places[i], for all i.
  void place_all(Stream& stream, const Blueprint& stored, const std::vector<StoredName>& places);
  // Whether all threads place the parameter together, since much is computed for it or held
  // meanwhile; otherwise a thread places it by itself, beside others.
  bool takes_all_threads(ParameterId id, const Parameter& parameter, const weights::Source& source,
                         const StoredName& where) const;
  // Threads place several parameters at a time.
  void place(Stream& stream, ParameterId id, const Parameter& parameter, weights::Source& source,
             const StoredName& where);
  ConstView read(weights::Source& source, const Parameter& parameter, const StoredName& where);
  void release(weights::Source& source, const std::string& name);
  // Gives pages of codes that have been packed back to the system, together with those of other
  // tensors: nothing else was allocated for them.
  void release_codes(const weights::Source& source, const std::string& name);
  ConstView place_rows(Stream& stream, ConstView file, Tensor& rows) const;
  // Whether an embedding is decoded and rounded some rows at a time.
  bool is_rounded_by_rows(const Parameter& parameter, const weights::Source& source,
                          const StoredName& where) const;
  kernels::Weight place_matrix(Stream& stream, ParameterId id, const Parameter& parameter,
                               ConstView rows);
  void bind(Stream& stream, const Blueprint& blueprint, const ModelAdapter& adapter,
            Opening opening);

  Device device_;
  weights::WeightFormat format_;
  const std::atomic<bool>* cancelled_;  // PlaceOptions::cancelled; for construction
  std::vector<std::unique_ptr<weights::Source>> sources_;
  UsedPages used_pages_;  // used during construction
  // Guards read() and release() of the sources, and what is to be released.
  std::unique_ptr<std::mutex> sources_mutex_ = std::make_unique<std::mutex>();
  // During construction: the terms to be merged, and all terms with a weight of the base model.
  std::unordered_map<ParameterId, std::vector<LoraTerm>> merged_, with_base_;
  DecoderAdapters adapters_;
  std::vector<Placed> placed_;  // indexed by ParameterId
  std::int64_t size_bytes_ = 0;
};

}  // namespace caption::model
