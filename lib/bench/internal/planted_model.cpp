#include "bench/internal/planted_model.h"

#include <iterator>

namespace caption::bench {

drafts::StepLoad PlantedModel::guess(std::span<const drafts::ModelQuery> queries,
                                     std::span<drafts::Guess> guesses) {
  const drafts::StepLoad load = model_.guess(queries, guesses);
  ++passes_.count;
  passes_.us += load.us;
  if (!agreement_.has_value()) return load;
  for (std::size_t i = 0; i < queries.size(); ++i) replace(queries[i], guesses[i]);
  return load;
}

void PlantedModel::replace(const drafts::ModelQuery& query, drafts::Guess& guess) {
  if (guess.token == drafts::kNoGuess) return;
  Planned& planned = planned_.at(query.sequence);
  const std::int64_t index = std::ssize(query.followers);
  if (index == 0) planned.run = runs_.at(planned.slot).next();
  const std::size_t position = query.output.size() + query.followers.size();
  if (position >= planned.output.size()) return;
  const std::int64_t right = planned.output[position];
  const std::int64_t token = index < planned.run ? right : (right + 1) % vocab_;
  guess = {.token = static_cast<std::int32_t>(token),
           .match_length = drafts::kModelMatch,
           .count = drafts::kModelTotal / 2,
           .total = drafts::kModelTotal};
}

}  // namespace caption::bench
