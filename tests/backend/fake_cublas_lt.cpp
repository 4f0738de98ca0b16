// A cuBLASLt that multiplies matrices of the host one number after another. Compiled several times,
// with what differs from a library that works:
//   FAKE_CREATE     the result of cublasLtCreate()
//   FAKE_PROPOSALS  how many algorithms it proposes
#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/internal/cublas_lt_api.h"

#ifndef FAKE_CREATE
#define FAKE_CREATE 0
#endif
#ifndef FAKE_PROPOSALS
#define FAKE_PROPOSALS 2
#endif

namespace {

using namespace caption::internal;

constexpr CublasStatus kInvalid = 7;

struct Layout {
  int type;
  std::int64_t rows, columns, stride;
};

struct Product {
  int compute_type, scale_type;
  bool is_transposed = false;
};

struct Preference {
  std::size_t workspace_bytes = 0;
};

float element(const void* matrix, const Layout& layout, std::int64_t row, std::int64_t column) {
  const std::uint16_t bits =
      static_cast<const std::uint16_t*>(matrix)[column * layout.stride + row];
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

}  // namespace

extern "C" {

CublasStatus cublasLtCreate(void** handle) {
  if (FAKE_CREATE == 0) *handle = new int(42);
  return FAKE_CREATE;
}
CublasStatus cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return 0;
}

CublasStatus cublasLtMatmulDescCreate(void** product, int compute_type, int scale_type) {
  *product = new Product{compute_type, scale_type};
  return 0;
}
CublasStatus cublasLtMatmulDescDestroy(void* product) {
  delete static_cast<Product*>(product);
  return 0;
}
CublasStatus cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value,
                                            std::size_t size_bytes) {
  std::int32_t operation = 0;
  if (attribute != kCublasLtTransposeA || size_bytes != sizeof operation) return kInvalid;
  std::memcpy(&operation, value, sizeof operation);
  static_cast<Product*>(product)->is_transposed = operation == kCublasTranspose;
  return 0;
}

CublasStatus cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows,
                                        std::uint64_t columns, std::int64_t stride) {
  *layout =
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
  return 0;
}
CublasStatus cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}

CublasStatus cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference;
  return 0;
}
CublasStatus cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return 0;
}
CublasStatus cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute,
                                                  const void* value, std::size_t size_bytes) {
  auto& bytes = static_cast<Preference*>(preference)->workspace_bytes;
  if (attribute != kCublasLtPreferenceWorkspaceBytes || size_bytes != sizeof bytes) return kInvalid;
  std::memcpy(&bytes, value, sizeof bytes);
  return 0;
}

CublasStatus cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*,
                                            void* preference, int most, CublasLtProposal* proposals,
                                            int* count) {
  *count = FAKE_PROPOSALS < most ? FAKE_PROPOSALS : most;
  for (int i = 0; i < *count; ++i) {
    proposals[i].algorithm.data[0] = static_cast<std::uint64_t>(i);
    proposals[i].workspace_bytes = static_cast<Preference*>(preference)->workspace_bytes;
    proposals[i].state = 0;
  }
  return 0;
}

CublasStatus cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a,
                            void* a_layout, const void* b, void* b_layout, const void* beta,
                            const void*, void*, void* d, void* d_layout,
                            const CublasLtAlgorithm* algorithm, void* workspace,
                            std::size_t workspace_bytes, void*) {
  const auto& how = *static_cast<Product*>(product);
  const auto& la = *static_cast<Layout*>(a_layout);
  const auto& lb = *static_cast<Layout*>(b_layout);
  const auto& ld = *static_cast<Layout*>(d_layout);
  const bool is_known = how.compute_type == kCublasCompute32F && how.scale_type == kCudaR32F &&
                        how.is_transposed && la.type == kCudaR16BF && lb.type == kCudaR16BF &&
                        ld.type == kCudaR32F;
  const bool fits = la.rows == lb.rows && la.columns == ld.rows && lb.columns == ld.columns;
  const bool is_plain =
      *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  if (*static_cast<int*>(handle) != 42 || !is_known || !fits || !is_plain ||
      static_cast<std::int64_t>(algorithm->data[0]) >= FAKE_PROPOSALS) {
    return kInvalid;
  }
  std::memset(workspace, 0xFF, workspace_bytes < 64 ? workspace_bytes : 64);
  for (std::int64_t column = 0; column < ld.columns; ++column) {
    for (std::int64_t row = 0; row < ld.rows; ++row) {
      float sum = 0;
      for (std::int64_t k = 0; k < la.rows; ++k) {
        sum += element(a, la, k, row) * element(b, lb, k, column);
      }
      static_cast<float*>(d)[column * ld.stride + row] = sum;
    }
  }
  return 0;
}

}  // extern "C"
