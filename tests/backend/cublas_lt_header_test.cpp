// The types and numbers of backend/internal/cublas_lt_api.h beside those of a toolkit's header.
#include <cublasLt.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "backend/internal/cublas_lt_api.h"

using namespace caption::internal;

TEST_SUITE_BEGIN("backend/cublas_lt");

TEST_CASE("the table of cuBLASLt's functions has the header's numbers and sizes") {
  CHECK(kCublasCompute32F == CUBLAS_COMPUTE_32F);
  CHECK(kCudaR32F == CUDA_R_32F);
  CHECK(kCudaR16F == CUDA_R_16F);
  CHECK(kCudaR16BF == CUDA_R_16BF);
  CHECK(kCublasTranspose == CUBLAS_OP_T);
  CHECK(kCublasLtTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
  CHECK(kCublasLtPreferenceWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  CHECK(sizeof(CublasLtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
  CHECK(sizeof(CublasLtProposal) == sizeof(cublasLtMatmulHeuristicResult_t));
  CHECK(offsetof(CublasLtProposal, workspace_bytes) ==
        offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  CHECK(offsetof(CublasLtProposal, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
  static_assert(sizeof(CublasStatus) == sizeof(cublasStatus_t));
  static_assert(std::is_pointer_v<cublasLtHandle_t> && std::is_pointer_v<cudaStream_t> &&
                std::is_pointer_v<cublasLtMatmulDesc_t> &&
                std::is_pointer_v<cublasLtMatrixLayout_t> &&
                std::is_pointer_v<cublasLtMatmulPreference_t>);
}

TEST_SUITE_END();
