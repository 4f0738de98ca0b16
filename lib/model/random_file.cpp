#include "model/internal/random_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "tensor/dtype.h"

namespace caption::model {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): computes the i-th number without the ones before it.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A sum of four uniform 16-bit numbers, shifted to mean 0 and scaled to deviation 0.02: its density
// is within 4 % of the normal one up to two deviations, and it needs one 64-bit draw per weight.
float draw_weight(std::uint64_t seed, std::int64_t index) {
  const std::uint64_t bits = mix(seed ^ mix(static_cast<std::uint64_t>(index)));
  const std::uint64_t sum =
      (bits & 0xFFFFu) + ((bits >> 16) & 0xFFFFu) + ((bits >> 32) & 0xFFFFu) + (bits >> 48);
  // The sum of four uniform numbers on [0, 65536) has mean 131070 and deviation 65536 / sqrt(3).
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

constexpr std::size_t kAlignmentBytes =
    64;  // alignment of the first tensor, as in saved checkpoints

std::size_t size_of(const NewTensor& tensor, DType dtype) {
  return static_cast<std::size_t>(tensor.shape.num_elements()) * dtype_size_bytes(dtype);
}

// Returns the bytes before the tensors: the length of the header, and the header.
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

// Writes the whole file, then unmaps it, so that its memory is not counted twice when it is mapped
// again.
class Writer {
 public:
  Writer(int descriptor, std::size_t size_bytes) : size_bytes_(size_bytes) {
    const bool is_sized =
        descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(size_bytes)) == 0;
    void* const mapped =
        is_sized ? ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
                 : MAP_FAILED;
    if (mapped == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      throw Error(ErrorCode::kOutOfMemory, "random weights: the system gives no " +
                                               std::to_string(size_bytes) + " bytes (" + why +
                                               "); use a smaller shape or bf16");
    }
    begin_ = static_cast<std::byte*>(mapped);
  }
  ~Writer() { ::munmap(begin_, size_bytes_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::byte* begin() const { return begin_; }

 private:
  std::size_t size_bytes_;
  std::byte* begin_ = nullptr;
};

void write_tensors(std::byte* begin, const std::vector<NewTensor>& tensors, DType dtype,
                   std::uint64_t seed) {
  ThreadPool pool(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u)));
  for (const NewTensor& tensor : tensors) {
    seed = mix(seed);
    dispatch_float(
        dtype, [&](auto element) { fill_tensor<decltype(element)>(pool, tensor, seed, begin); });
    begin += size_of(tensor, dtype);
  }
}

}  // namespace

RandomFile::RandomFile(const std::vector<NewTensor>& tensors, DType dtype, std::uint64_t seed)
    : first_name_(tensors.front().name) {
  const std::string header = make_header(tensors, dtype);
  header_bytes_ = header.size();
  std::size_t size_bytes = header.size();
  for (const NewTensor& tensor : tensors) size_bytes += size_of(tensor, dtype);
  descriptor_ = ::memfd_create("random-weights", MFD_CLOEXEC);
  try {
    const Writer writer(descriptor_, size_bytes);
    std::memcpy(writer.begin(), header.data(), header.size());
    write_tensors(writer.begin() + header.size(), tensors, dtype, seed);
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

RandomFile::~RandomFile() { ::close(descriptor_); }

std::filesystem::path RandomFile::path() const {
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

void RandomFile::forget_packed(const WeightStore& store) const {
  const ConstView first = store.checkpoint().find(first_name_).value();
  const auto* const tensors = static_cast<const std::byte*>(first.raw());
  for (const ConstView& source : store.packed_sources()) {
    const auto offset =
        static_cast<std::size_t>(static_cast<const std::byte*>(source.raw()) - tensors);
    const std::size_t size_bytes =
        static_cast<std::size_t>(source.num_elements()) * dtype_size_bytes(source.dtype());
    // Failure only costs memory.
    static_cast<void>(::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(header_bytes_ + offset),
                                  static_cast<off_t>(size_bytes)));
  }
}

}  // namespace caption::model
