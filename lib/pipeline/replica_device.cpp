#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/log.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {

void ReturnedJobs::add(Job job, WasAt was_at) {
  if (!job.is_over() && was_at == WasAt::kWork) ++job.num_losses;
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& other) {
    return other.record.video == job.record.video && other.content == job.content;
  });
  const bool has_tasks_alone = job.ready.empty() && job.waiting.empty() && job.num_found == 0;
  if (same == jobs_.end() || same->is_over() || job.is_over() || !has_tasks_alone) {
    jobs_.push_back(std::move(job));
    return;
  }
  same->num_losses = std::max(same->num_losses, job.num_losses);
  std::move(job.tasks.begin(), job.tasks.end(), std::back_inserter(same->tasks));
}

void ReplicaDevice::lose(const Error& error) {
  if (is_lost_.exchange(true)) return;
  const int num_left = shared_.num_replicas.fetch_sub(1) - 1;
  if (num_left == 0) return shared_.breakdown.set(std::make_exception_ptr(error));
  // The rest of the message says what to do when a run ends.
  const std::string what = error.what();
  log_warning("run", name_ + " is lost; the run goes on with " + std::to_string(num_left) +
                         (num_left == 1 ? " other" : " others") +
                         ", to which its unfinished clips go: " + what.substr(0, what.find(';')));
}

}  // namespace caption::pipeline
