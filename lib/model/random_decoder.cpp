#include "model/random_decoder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "model/internal/transformer_decoder.h"
#include "model/internal/weight_store.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

enum class Fill { kNormal, kOne, kZero };

struct NewTensor {
  std::string name;
  Shape shape;
  Fill fill = Fill::kNormal;
};

std::vector<NewTensor> list_tensors(const TextShape& shape) {
  std::vector<NewTensor> tensors;
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    tensors.push_back({name, {out, in}, Fill::kNormal});
  };
  const auto norm = [&](const std::string& name, std::int64_t dim) {
    tensors.push_back({name, {dim}, Fill::kOne});
  };
  constexpr const char* kMatrices[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                       "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                       "mlp.down_proj"};
  constexpr std::size_t kNumAttention = 4;
  const std::vector<LinearShape> extents = layer_matrices(shape);
  matrix("embed_tokens.weight", shape.vocab, shape.hidden);
  if (!shape.tied_embeddings) matrix("lm_head.weight", shape.vocab, shape.hidden);
  norm("norm.weight", shape.hidden);
  for (std::int64_t i = 0; i < shape.num_layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    for (std::size_t m = 0; m < extents.size(); ++m) {
      const std::string stem = layer + kMatrices[m];
      matrix(stem + ".weight", extents[m].out, extents[m].in);
      if (m < kNumAttention ? shape.attention_bias : shape.mlp_bias) {
        tensors.push_back({stem + ".bias", {extents[m].out}, Fill::kZero});
      }
    }
    norm(layer + "input_layernorm.weight", shape.hidden);
    norm(layer + "post_attention_layernorm.weight", shape.hidden);
    if (shape.qk_norm) {
      norm(layer + "self_attn.q_norm.weight", shape.head_dim);
      norm(layer + "self_attn.k_norm.weight", shape.head_dim);
    }
  }
  return tensors;
}

// splitmix64 (Steele, Lea, Flood 2014): the i-th number of a stream without the ones before it.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The sum of four uniform 16-bit numbers, shifted to mean 0 and scaled to deviation 0.02: within 4
// % of a normal density up to two deviations, at one draw of 64 bits per weight.
float draw_weight(std::uint64_t seed, std::int64_t index) {
  const std::uint64_t bits = mix(seed ^ mix(static_cast<std::uint64_t>(index)));
  const std::uint64_t sum =
      (bits & 0xFFFFu) + ((bits >> 16) & 0xFFFFu) + ((bits >> 32) & 0xFFFFu) + (bits >> 48);
  // Four uniforms on [0, 65536) have mean 131070 and deviation 65536 / sqrt(3).
  constexpr float kDeviation = 65536.0F / 1.7320508F;
  return (static_cast<float>(sum) - 131070.0F) * (0.02F / kDeviation);
}

template <class T>
void fill_tensor(ThreadPool& pool, const NewTensor& tensor, std::uint64_t seed, std::byte* begin) {
  T* const values = reinterpret_cast<T*>(begin);
  pool.parallel_for(tensor.shape.num_elements(), 1 << 16, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const float value = tensor.fill == Fill::kNormal ? draw_weight(seed, i)
                                                       : (tensor.fill == Fill::kOne ? 1.0F : 0.0F);
      values[i] = from_float<T>(value);
    }
  });
}

// A file that lives in memory as long as something maps or holds it.
class MemoryFile {
 public:
  explicit MemoryFile(std::size_t size_bytes)
      : descriptor_(::memfd_create("random-weights", MFD_CLOEXEC)), size_bytes_(size_bytes) {
    const bool is_sized =
        descriptor_ >= 0 && ::ftruncate(descriptor_, static_cast<off_t>(size_bytes)) == 0;
    void* const mapped =
        is_sized ? ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)
                 : MAP_FAILED;
    if (mapped == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      if (descriptor_ >= 0) ::close(descriptor_);
      throw Error(ErrorCode::kOutOfMemory, "random weights: the system gives no " +
                                               std::to_string(size_bytes) + " bytes (" + why +
                                               "); use a smaller shape or bf16");
    }
    begin_ = static_cast<std::byte*>(mapped);
  }
  ~MemoryFile() {
    ::munmap(begin_, size_bytes_);
    ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::byte* begin() const { return begin_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_ = -1;
  std::size_t size_bytes_ = 0;
  std::byte* begin_ = nullptr;
};

constexpr std::size_t kAlignmentBytes = 64;  // of the first tensor, as saved checkpoints have it

std::size_t size_of(const NewTensor& tensor, DType dtype) {
  return static_cast<std::size_t>(tensor.shape.num_elements()) * dtype_size_bytes(dtype);
}

// The length of the header, and the header: what precedes the tensors' bytes.
std::string make_header(const std::vector<NewTensor>& tensors, DType dtype) {
  std::string json = "{";
  std::size_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    const std::size_t end = offset + size_of(tensor, dtype);
    json += (json.size() > 1 ? ",\"" : "\"") + tensor.name + "\":{\"dtype\":\"" +
            (dtype == DType::kF32 ? "F32" : "BF16") + "\",\"shape\":" + tensor.shape.to_string() +
            ",\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  json += "}";
  const std::size_t unpadded = sizeof(std::uint64_t) + json.size();
  json.append((kAlignmentBytes - unpadded % kAlignmentBytes) % kAlignmentBytes, ' ');
  const std::uint64_t length = json.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

weights::Checkpoint make_checkpoint(const TextShape& shape, DType dtype, std::uint64_t seed) {
  const std::vector<NewTensor> tensors = list_tensors(shape);
  const std::string header = make_header(tensors, dtype);
  std::size_t size_bytes = header.size();
  for (const NewTensor& tensor : tensors) size_bytes += size_of(tensor, dtype);
  const MemoryFile file(size_bytes);
  std::memcpy(file.begin(), header.data(), header.size());
  ThreadPool pool(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u)));
  std::byte* begin = file.begin() + header.size();
  std::uint64_t tensor_seed = seed;
  for (const NewTensor& tensor : tensors) {
    tensor_seed = mix(tensor_seed);
    dispatch_float(dtype, [&](auto element) {
      fill_tensor<decltype(element)>(pool, tensor, tensor_seed, begin);
    });
    begin += size_of(tensor, dtype);
  }
  return weights::Checkpoint::open(file.path());
}

TextConfig to_config(const TextShape& shape) {
  TextConfig config;
  config.model_type = shape.qk_norm ? "qwen3" : "llama";
  config.hidden = shape.hidden;
  config.intermediate = shape.intermediate;
  config.num_layers = shape.num_layers;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.vocab = shape.vocab;
  config.max_positions = shape.max_positions;
  config.rms_norm_eps = 1e-6F;
  config.rope_theta = 1e6;
  config.qkv_bias = shape.attention_bias;
  config.mlp_bias = shape.mlp_bias;
  config.qk_norm = shape.qk_norm;
  config.tied_embeddings = shape.tied_embeddings;
  return config;
}

// A decoder together with the weights it borrows.
class RandomDecoder final : public Decoder {
 public:
  RandomDecoder(weights::Checkpoint checkpoint, WeightType type, const TextConfig& config)
      : store_(std::move(checkpoint), type), decoder_(store_, "", "lm_head", config) {}

  const DecoderSpec& spec() const override { return decoder_.spec(); }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override {
    decoder_.reserve(max_tokens, max_logit_rows);
  }
  std::int64_t scratch_bytes() const override { return decoder_.scratch_bytes(); }
  void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) override {
    decoder_.forward(stream, batch, kv, logits);
  }

 private:
  WeightStore store_;
  TransformerDecoder decoder_;
};

}  // namespace

std::unique_ptr<Decoder> make_random_decoder(const TextShape& shape, WeightType type,
                                             std::uint64_t seed) {
  const DType dtype = type == WeightType::kF32 ? DType::kF32 : DType::kBF16;
  return std::make_unique<RandomDecoder>(make_checkpoint(shape, dtype, seed), type,
                                         to_config(shape));
}

}  // namespace caption::model
