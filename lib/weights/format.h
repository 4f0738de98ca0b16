// weights/format.h: the formats in which the weights of a model are held.
//
// Formats of 8 and 4 bits apply to the matrices of the decoder's layers. Embedding, norms, vision
// tower and projector keep 16 bits, as in AWQ checkpoints. The LM head, with tied embeddings also
// the embedding, keeps 16 bits too, except in the formats that are made at load: it is int8 in
// kInt8, kInt4, kNf4 and kFp8, and as the layers are in kInt4Head4 and kW4A8Head4. In kW8A8 and
// kW4A8 it has 8 bits with a scale per row. The linear layers of tower and projector have these 8
// bits in kW8A8, kW4A8 and kW4A8Head4.
//
// Matrices that a file holds as codes keep them in kF32, kBF16 and the format of their own name
// (keeps_codes()).
//
// No model is held in kF16. The codes of kAwq, kGptq and kNf4Double are a file's (file_format.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/context.h"
#include "tensor/matrix_format.h"
#include "weights/source.h"

namespace caption::weights {

enum class WeightFormat {
  kF32,   // the numbers as stored in the file, whatever their dtype
  kBF16,  // rounded to bf16
  kF16,
  kInt8,       // made at load (weights/quantise.h)
  kInt4,       // made at load
  kNf4,        // made at load
  kNf4Double,  // nf4 with quantised scales
  kW8A8,       // 8 bits, a scale per row; multiplied by 8-bit activations; made at load
  kW4A8,       // as kInt4; multiplied by 8-bit activations; made at load
  kFp8,        // floating-point numbers of 8 bits (tensor/e4m3.h), a scale per row; multiplied by
               // activations of the same; made at load; some GPUs only (find_obstacle())
  kInt4Head4,  // as kInt4, also the LM head; made at load
  kW4A8Head4,  // as kW4A8, also the LM head; made at load
  kAwq,
  kGptq,
};

// Returns the name for reports, such as "f32" or "int8, groups of 128".
std::string_view describe(WeightFormat format);
std::span<const WeightFormat> all_weight_formats();
// Whether this build can hold a model in the format: from a file of 16 or 32 bits, made at load.
bool can_be_held(WeightFormat format);
// Returns why a device cannot multiply by weights of the format, and that `other` is to be taken
// instead, as a sentence for an Error(kUnavailable); nullopt if it can, as a GPU of unknown compute
// capability (0) is taken to.
std::optional<std::string> find_obstacle(const Context& context, WeightFormat format,
                                         WeightFormat other = WeightFormat::kW8A8);

// The use of a parameter, which decides how a format holds it.
enum class Role {
  kVector,         // a norm, bias, class token, layer scale or position table
  kEmbedding,      // rows that are looked up by token id
  kHead,           // the LM head; with tied embeddings also the embedding
  kDecoderLinear,  // a matrix of a decoder layer
  kEncoderLinear,  // a linear layer of the vision tower or the projector
  kPatchEmbedding  // the matrix by which patches of pixels are multiplied
};

// Whether a model in `format` holds a matrix as the codes of its file: f32, bf16 and f16 leave
// codes as they are, and a format of codes keeps its own.
bool keeps_codes(WeightFormat format, const StoredCodes& codes);

// Throws Error(kUnavailable) with what to do, unless keeps_codes(); `tensor` is its name for the
// message.
void require_kept_codes(WeightFormat format, const StoredCodes& codes, const std::string& tensor);

// Returns the form in which a model in `format` holds a parameter of this role.
MatrixFormat matrix_format(WeightFormat format, Role role);

}  // namespace caption::weights
