#include "quantise/internal/set_solver.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace caption::quantise {

void SetSolver::solve(const SolvedLayer& layer, Matrices matrices, InputMoments moments) const {
  const std::string& first = layer.plan.names.matrices[*matrices.begin()];
  const auto fail = [](const std::string& tensor, const Error& error) {
    return Error(error.code(), "tensor \"" + tensor + "\": " + error.what());
  };
  std::optional<GptqHessian> hessian;
  try {
    // The moments are freed before the matrices are solved.
    const InputMoments inputs = std::move(moments);
    hessian.emplace(stream_, inputs, options_, layer.on_work);
  } catch (const Error& error) {
    throw fail(first, error);
  }
  if (hessian->damping() > options_.damping) {
    log_detail("quantize", first + ": damping " + std::to_string(hessian->damping()));
  }
  for (const MatrixIndex matrix : matrices) {
    const TensorPlan* const plan = layer.plan.matrices[matrix];
    if (plan == nullptr) continue;
    Tensor& weight = layer.weights.matrices[matrix];
    try {
      const GptqSolution solution = solve_gptq(stream_, weight.view(), *hessian, layer.on_work);
      std::vector<Bytes> parts = format_.pack(stream_.pool(), solution.matrix);
      report_work(layer.on_work, 0);
      weight = decode_(parts, plan->matrix->shape);
      report_work(layer.on_work, 0);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        layer.made[plan->parts[i].name] = std::move(parts[i]);
      }
    } catch (const Error& error) {
      throw fail(plan->name, error);
    }
  }
}

std::int64_t SetSolver::work(const LayerPlan& layer, const HiddenStates& hidden) {
  std::int64_t sum = 0;
  const auto add_set = [&](std::int64_t columns, Matrices matrices) {
    sum += hidden.num_tokens() * moments_work(columns) + GptqHessian::work(columns);
    for (const MatrixIndex i : matrices) {
      const TensorPlan* const plan = layer.matrices[i];
      if (plan != nullptr) sum += plan->matrix->shape[0] * gptq_work(columns);
    }
  };
  add_set(hidden.spec().hidden, {kQ, kK, kV});
  add_set(hidden.spec().q_dim(), {kO});
  add_set(hidden.spec().hidden, {kGate, kUp});
  add_set(hidden.spec().intermediate, {kDown});
  return sum;
}

void SetSolver::read(const LayerPlan& layer, const weights::Checkpoint& made,
                     LayerWeights& weights) const {
  for (std::size_t i = 0; i < kNumMatrices; ++i) {
    const TensorPlan* const plan = layer.matrices[i];
    if (plan == nullptr) continue;
    std::vector<Bytes> parts;
    for (const weights::PlannedTensor& part : plan->parts) {
      const auto* const begin = static_cast<const std::byte*>(made.find(part.name).value().raw());
      parts.emplace_back(begin, begin + part.size_bytes);
    }
    weights.matrices[i] = decode_(parts, plan->matrix->shape);
  }
}

}  // namespace caption::quantise
