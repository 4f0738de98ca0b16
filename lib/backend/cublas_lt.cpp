#include "backend/cublas_lt.h"

#include <utility>

#include "backend/internal/cublas_lt_api.h"
#include "backend/internal/library.h"
#include "base/error.h"

namespace caption {
namespace {

using internal::CublasLtApi;
using internal::CublasLtProposal;
using internal::CublasStatus;

constexpr int kMostProposals = 8;
// What NVIDIA recommends for GPUs from Hopper on, the most of all.
constexpr std::size_t kWorkspaceBytes = 32 << 20;

void check(CublasStatus status, const char* doing) {
  if (status == 0) return;
  throw Error(ErrorCode::kUnavailable, std::string("cuBLASLt failed when it ") + doing +
                                           ": status " + std::to_string(status));
}

// Why a table of functions is not usable, or empty.
std::string find_functions(const char* name, CublasLtApi& api) {
  internal::Library library(name);
  library.find("cublasLtCreate", api.create);
  library.find("cublasLtDestroy", api.destroy);
  library.find("cublasLtMatmulDescCreate", api.create_product);
  library.find("cublasLtMatmulDescDestroy", api.destroy_product);
  library.find("cublasLtMatmulDescSetAttribute", api.set_product);
  library.find("cublasLtMatrixLayoutCreate", api.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", api.destroy_layout);
  library.find("cublasLtMatmulPreferenceCreate", api.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", api.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", api.set_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", api.propose);
  library.find("cublasLtMatmul", api.multiply);
  return library.why();
}

// What the library allocated, destroyed by a function of its own.
class Owned {
 public:
  using Destroy = CublasStatus (*)(void*);

  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (object_ != nullptr) destroy_(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  void** address() { return &object_; }
  void* get() const { return object_; }

 private:
  Destroy destroy_;
  void* object_ = nullptr;
};

}  // namespace

struct CublasLt::Product::State {
  State(const CublasLtApi& functions, void* library)
      : api(functions),
        handle(library),
        product(functions.destroy_product),
        weight(functions.destroy_layout),
        x(functions.destroy_layout),
        y(functions.destroy_layout) {}

  // The library's matrices are column-major, so it computes y^T = weight * x^T, of which the weight
  // is transposed.
  void describe(const CublasLtShape& shape) {
    const int type = shape.is_bf16 ? internal::kCudaR16BF : internal::kCudaR16F;
    const auto layout = [&](Owned& made, int dtype, std::int64_t rows, std::int64_t columns) {
      check(api.create_layout(made.address(), dtype, static_cast<std::uint64_t>(rows),
                              static_cast<std::uint64_t>(columns), rows),
            "described a matrix");
    };
    layout(weight, type, shape.columns, shape.features);
    layout(x, type, shape.columns, shape.rows);
    layout(y, internal::kCudaR32F, shape.features, shape.rows);
    check(api.create_product(product.address(), internal::kCublasCompute32F, internal::kCudaR32F),
          "described a product");
    const std::int32_t transpose = internal::kCublasTranspose;
    check(
        api.set_product(product.get(), internal::kCublasLtTransposeA, &transpose, sizeof transpose),
        "described a product");
  }

  void choose_algorithms() {
    Owned preference(api.destroy_preference);
    check(api.create_preference(preference.address()), "was asked for algorithms");
    const std::size_t most = kWorkspaceBytes;
    check(api.set_preference(preference.get(), internal::kCublasLtPreferenceWorkspaceBytes, &most,
                             sizeof most),
          "was asked for algorithms");
    CublasLtProposal found[kMostProposals];
    int count = 0;
    check(api.propose(handle, product.get(), weight.get(), x.get(), y.get(), y.get(),
                      preference.get(), kMostProposals, found, &count),
          "was asked for algorithms");
    for (int i = 0; i < count; ++i) {
      if (found[i].state == 0) proposals.push_back(found[i]);
    }
    if (proposals.empty()) {
      throw Error(ErrorCode::kUnavailable, "cuBLASLt has no algorithm for a product");
    }
  }

  const CublasLtApi& api;
  void* handle;
  Owned product, weight, x, y;
  std::vector<CublasLtProposal> proposals;
};

CublasLt::Product::Product(std::unique_ptr<State> state) : state_(std::move(state)) {}
CublasLt::Product::Product(Product&& other) noexcept = default;
CublasLt::Product::~Product() = default;

int CublasLt::Product::num_algorithms() const { return static_cast<int>(state_->proposals.size()); }

void CublasLt::Product::multiply(Stream& stream, int algorithm, const void* x, const void* weight,
                                 float* y) const {
  const State& s = *state_;
  const CublasLtProposal& proposal = s.proposals.at(static_cast<std::size_t>(algorithm));
  const float one = 1;
  const float zero = 0;
  std::byte* const workspace = stream.scratch(kWorkspaceBytes);
  check(s.api.multiply(s.handle, s.product.get(), &one, weight, s.weight.get(), x, s.x.get(), &zero,
                       y, s.y.get(), y, s.y.get(), &proposal.algorithm, workspace, kWorkspaceBytes,
                       stream.queue()),
        "multiplied");
}

CublasLt::CublasLt() : api_(std::make_unique<CublasLtApi>()) {}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

std::span<const char* const> CublasLt::library_names() {
  static constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  return kNames;
}

std::unique_ptr<CublasLt> CublasLt::load(std::span<const char* const> names, std::string* why) {
  std::unique_ptr<CublasLt> library(new CublasLt);
  for (const char* const name : names) {
    *why = find_functions(name, *library->api_);
    if (!why->empty()) continue;
    const CublasStatus status = library->api_->create(&library->handle_);
    if (status == 0) return library;
    library->handle_ = nullptr;
    *why = std::string(name) + " does not start: status " + std::to_string(status);
  }
  return nullptr;
}

CublasLt::Product CublasLt::plan(const CublasLtShape& shape) const {
  auto state = std::make_unique<Product::State>(*api_, handle_);
  state->describe(shape);
  state->choose_algorithms();
  return Product(std::move(state));
}

}  // namespace caption
