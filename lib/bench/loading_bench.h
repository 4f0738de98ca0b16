// bench/loading_bench.h: measures how fast a model is loaded, beside how fast its files are read.
//
// A pass reads the files from the page cache, in pieces that stay in the processor's caches; copies
// them into fresh memory; and opens the model. Memory is touched and freed before each of the last
// two, so that neither waits for what the host of a virtual machine has taken back. Passes are
// interleaved, and medians count. The same, three times at most, from the disk, after the system
// was asked to drop the files from the page cache (POSIX_FADV_DONTNEED): where it does not, the
// rates are those of the page cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"
#include "model/caption_model.h"

namespace caption::bench {

struct LoadingBenchOptions {
  int repeat = 5;  // number of passes, >= 1
};

// Seconds are medians.
struct LoadingBench {
  int num_threads = 1;
  std::int64_t file_bytes = 0;
  std::int64_t weight_bytes = 0;  // CaptionModel::weight_bytes()
  // Largest resident size while the model was opened, beyond that before and the weights; pages of
  // the mapped files count. Negative where weights stay in the files and are not read before a run.
  std::int64_t extra_bytes = 0;
  double cached_read_s = 0;
  double cached_copy_s = 0;
  double cached_load_s = 0;
  double disk_read_s = 0;
  double disk_copy_s = 0;
  double disk_load_s = 0;
  // Processor time of all threads, the system's included: unlike the seconds above, other work on
  // the machine changes it little.
  double copy_processor_s = 0;
  double load_processor_s = 0;

  // The rate at which the model is loaded as a share of that at which its files are read.
  double share_of_page_cache() const { return cached_read_s / cached_load_s; }
  double share_of_copy() const { return cached_copy_s / cached_load_s; }
  double share_of_copy_work() const { return copy_processor_s / load_processor_s; }
  double share_of_disk() const { return disk_read_s / disk_load_s; }
  double share_of_disk_copy() const { return disk_copy_s / disk_load_s; }
};

// `files` are the model's weight files, which `open` opens. Threads are the context's. Throws
// Error(kIo) for a file that cannot be read; kOutOfMemory; and what `open` throws.
LoadingBench bench_loading(const Context& context, const std::vector<std::filesystem::path>& files,
                           const std::function<std::unique_ptr<model::CaptionModel>()>& open,
                           const LoadingBenchOptions& options);

std::string to_table(const std::string& subject, const LoadingBench& bench);
// Returns one JSON object on one line.
std::string to_json(const std::string& subject, const LoadingBench& bench);

}  // namespace caption::bench
