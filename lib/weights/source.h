// weights/source.h: the interface to the tensors of a model, which come from the files of a
// checkpoint or are random numbers. Each file format is an implementation of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "tensor/matrix_format.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::weights {

// How a source holds a matrix [N, K] of codes.
struct StoredCodes {
  std::string_view method;  // for messages: "awq", "gptq", "nf4"
  MatrixFormat format;      // the form that keeps the codes
  CodeLayout layout;
  // Whether the checkpoint says that the matrix is multiplied by activations that are rounded to
  // integers of 8 bits with a scale for each token.
  bool rounds_activations = false;
};

// read() and release() are for one thread at a time; the other functions are thread-safe, also
// meanwhile.
class Source {
 public:
  virtual ~Source() = default;

  // The name used in messages: the path of the files, or a description.
  virtual std::string name() const = 0;
  virtual bool has(std::string_view tensor) const = 0;
  virtual std::vector<std::string> names() const = 0;  // names of all tensors, sorted
  // The name that the source's files have for a tensor, there or missing, where it is another one;
  // nullopt: they have none, or it is not known.
  virtual std::optional<std::string> file_name_of(std::string_view /*tensor*/) const {
    return std::nullopt;
  }
  // The shape of a tensor; nullopt if there is none. Throws Error(kUnavailable) for a dtype or rank
  // that no view can have.
  virtual std::optional<Shape> shape(std::string_view tensor) const = 0;
  // Returns the tensor, valid until release() or the destruction of the Source; a tensor that is
  // held as codes is decoded, as the reference of its format decodes it. Throws Error(kBadModel)
  // naming the tensor when it is missing or of another shape; kUnavailable for a dtype or rank that
  // no view can have; kOutOfMemory.
  virtual ConstView read(std::string_view tensor, const Shape& shape) = 0;
  // Returns the dtype that read() gives, for sources whose tensors have several; nullopt: not
  // known.
  virtual std::optional<DType> dtype_of(std::string_view /*tensor*/) const { return std::nullopt; }
  // Returns the bytes of mapped files that read() or read_codes() will read for a tensor; none
  // where it is missing or not in a file.
  virtual std::vector<std::span<const std::byte>> mapped_bytes(std::string_view /*tensor*/) const {
    return {};
  }
  // Ends the use of a tensor that was read, so that its memory can be freed.
  virtual void release(std::string_view tensor) = 0;

  // Returns how a tensor [N, K] is held as codes; nullopt when it is missing, or held as numbers,
  // or when no kernel multiplies by its codes.
  virtual std::optional<StoredCodes> codes_of(std::string_view /*tensor*/) const {
    return std::nullopt;
  }
  // Returns how a tensor [N, K] is held as numbers of e4m3 (tensor/e4m3.h), which read() decodes:
  // as kE4M3Row, or as kBF16 where its scales are not those of rows, so that kFp8 of
  // weights/format.h does not keep them. nullopt for a tensor that is not held so.
  virtual std::optional<StoredCodes> e4m3_of(std::string_view /*tensor*/) const {
    return std::nullopt;
  }
  // Returns rows [first, first + count) of a tensor for which codes_of() or e4m3_of() has a value,
  // the latter's numbers of e4m3 in groups as wide as a scale's block; `shape` is that of the whole
  // tensor. Thread-safe. Throws Error(kBadModel) naming the tensor when it has another shape, its
  // scales cannot be (docs/formats.md), or its e4m3 holds a NaN.
  virtual QuantisedMatrix read_codes(std::string_view tensor, const Shape& shape,
                                     std::int64_t first, std::int64_t count) const;
  // As read_codes(), but where it saves time the codes stay in the file
  // (QuantisedMatrix::file_codes), valid until release(), and scales that are not finite, or NaN of
  // e4m3, may be left to who reads them.
  virtual QuantisedMatrix borrow_codes(std::string_view tensor, const Shape& shape,
                                       std::int64_t first, std::int64_t count) const {
    return read_codes(tensor, shape, first, count);
  }

  // Whether decode_rows() gives the tensor: it is a matrix [N, K] of codes each row of which is
  // decoded by itself, so that nobody has to hold all of its numbers.
  virtual bool has_decodable_rows(std::string_view /*tensor*/) const { return false; }
  // Writes the numbers of read() of rows [first, first + count) to `to` [count, K], of a tensor for
  // which has_decodable_rows() is true. Thread-safe.
  virtual void decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                           float* to) const;

  // Returns the identity of the weights; `digests` holds known digests of files. Throws
  // Error(kBadModel) when a file was written since it was opened; kIo.
  virtual Sha256 content_hash(const DigestCache& digests) const = 0;
  // Returns a sentence for an Error about the first file that changed since it was opened; nullopt
  // if there is none. Throws Error(kIo).
  virtual std::optional<std::string> find_changed_file() const = 0;
  // Returns "FILE: tensor NAME holds ..." of the first tensor, among those that read() maps as they
  // are, with a number that is not finite; nullopt if there is none. Reads them whole. Thread-safe.
  virtual std::optional<std::string> find_broken_tensor() const { return std::nullopt; }
};

}  // namespace caption::weights
