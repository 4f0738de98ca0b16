// backend/internal/cublas_lt_api.h: the functions of cuBLASLt that the backend calls, with the
// types and numbers of cublasLt.h, whose binary interface is that of CUDA 12 and 13. Builds need no
// toolkit for it. A result of 0 is success.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caption::internal {

using CublasStatus = int;  // cublasStatus_t

inline constexpr int kCublasCompute32F = 68;  // cublasComputeType_t
inline constexpr int kCudaR32F = 0;           // cudaDataType_t
inline constexpr int kCudaR16F = 2;
inline constexpr int kCudaR16BF = 14;
inline constexpr std::int32_t kCublasTranspose = 1;          // cublasOperation_t
inline constexpr int kCublasLtTransposeA = 3;                // cublasLtMatmulDescAttributes_t
inline constexpr int kCublasLtPreferenceWorkspaceBytes = 1;  // cublasLtMatmulPreferenceAttributes_t

struct CublasLtAlgorithm {  // cublasLtMatmulAlgo_t
  std::uint64_t data[8] = {};
};

struct CublasLtProposal {  // cublasLtMatmulHeuristicResult_t
  CublasLtAlgorithm algorithm;
  std::size_t workspace_bytes = 0;
  CublasStatus state = 0;
  float waves = 0;
  int reserved[4] = {};
};

// Handles, descriptors, layouts and preferences are pointers to what the library allocates.
struct CublasLtApi {
  CublasStatus (*create)(void** handle) = nullptr;
  CublasStatus (*destroy)(void* handle) = nullptr;
  CublasStatus (*create_product)(void** product, int compute_type, int scale_type) = nullptr;
  CublasStatus (*destroy_product)(void* product) = nullptr;
  CublasStatus (*set_product)(void* product, int attribute, const void* value,
                              std::size_t size_bytes) = nullptr;
  // Column-major.
  CublasStatus (*create_layout)(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                std::int64_t stride) = nullptr;
  CublasStatus (*destroy_layout)(void* layout) = nullptr;
  CublasStatus (*create_preference)(void** preference) = nullptr;
  CublasStatus (*destroy_preference)(void* preference) = nullptr;
  CublasStatus (*set_preference)(void* preference, int attribute, const void* value,
                                 std::size_t size_bytes) = nullptr;
  CublasStatus (*propose)(void* handle, void* product, void* a, void* b, void* c, void* d,
                          void* preference, int most, CublasLtProposal* proposals,
                          int* count) = nullptr;
  // d = alpha * op(a) * b + beta * c
  CublasStatus (*multiply)(void* handle, void* product, const void* alpha, const void* a,
                           void* a_layout, const void* b, void* b_layout, const void* beta,
                           const void* c, void* c_layout, void* d, void* d_layout,
                           const CublasLtAlgorithm* algorithm, void* workspace,
                           std::size_t workspace_bytes, void* queue) = nullptr;
};

}  // namespace caption::internal
