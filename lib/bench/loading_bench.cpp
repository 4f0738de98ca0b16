#include "bench/loading_bench.h"

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "backend/buffer.h"
#include "backend/thread_pool.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/math.h"
#include "base/open_file.h"
#include "base/units.h"
#include "bench/process_memory.h"
#include "bench/statistics.h"

namespace caption::bench {
namespace {

// A piece that a thread reads at a time.
constexpr std::int64_t kPieceBytes = 256 << 10;
constexpr int kMaxDiskPasses = 3;  // a disk may be slow

// The time on the clock, and that of the processors.
struct Duration {
  double seconds = 0;
  double processor_s = 0;
};

// Microseconds for which the process's threads have run on processors, all of them together.
std::int64_t process_cpu_us() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

class Timer {
 public:
  Duration elapsed() const {
    return {.seconds = static_cast<double>(stopwatch_.elapsed_us()) / 1e6,
            .processor_s = static_cast<double>(process_cpu_us() - start_cpu_us_) / 1e6};
  }

 private:
  Stopwatch stopwatch_;
  std::int64_t start_cpu_us_ = process_cpu_us();
};

class Files {
 public:
  Files(const Context& context, const std::vector<std::filesystem::path>& paths)
      : pool_(context.num_threads) {
    for (const std::filesystem::path& path : paths) files_.emplace_back(path);
  }

  std::int64_t size_bytes() const {
    std::int64_t sum = 0;
    for (const OpenFile& file : files_) sum += file.size_bytes();
    return sum;
  }

  // Reads all files on all threads, into one piece of memory per range of pieces.
  double read_s() {
    return seconds_of([&](const OpenFile& file, std::int64_t begin, std::int64_t end) {
      // Aligned: into other memory the system copied at half the rate.
      const Buffer memory(Device::kCpu, static_cast<std::size_t>(kPieceBytes));
      const std::span<std::byte> piece(memory.begin(), memory.size_bytes());
      for (std::int64_t at = begin; at < end; at += kPieceBytes) {
        read(file, at, piece.first(static_cast<std::size_t>(std::min(kPieceBytes, end - at))));
      }
    });
  }

  // Reads all files into memory that the process has not touched before, as much as the files have.
  Duration copy() {
    const Timer timer;
    std::vector<Buffer> copies;
    for (const OpenFile& file : files_) {
      copies.emplace_back(Device::kCpu, static_cast<std::size_t>(file.size_bytes()));
      std::byte* const first = copies.back().begin();
      over_pieces(file, [&](const OpenFile& of, std::int64_t begin, std::int64_t end) {
        read(of, begin, std::span(first + begin, static_cast<std::size_t>(end - begin)));
      });
    }
    return timer.elapsed();
  }

  void drop_from_page_cache() const {
    for (const OpenFile& file : files_) {
      ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }

 private:
  static void read(const OpenFile& file, std::int64_t position, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = file.read_at(position, bytes);
      if (count == 0) {
        throw Error(ErrorCode::kIo, file.path().string() + ": was cut short meanwhile");
      }
      position += static_cast<std::int64_t>(count);
      bytes = bytes.subspan(count);
    }
  }

  template <class Body>
  void over_pieces(const OpenFile& file, const Body& body) {
    const std::int64_t size = file.size_bytes();
    pool_.parallel_for(divide_up(size, kPieceBytes), 16, [&](std::int64_t begin, std::int64_t end) {
      body(file, begin * kPieceBytes, std::min(size, end * kPieceBytes));
    });
  }

  template <class Body>
  double seconds_of(const Body& body) {
    const Stopwatch stopwatch;
    for (const OpenFile& file : files_) over_pieces(file, body);
    return static_cast<double>(stopwatch.elapsed_us()) / 1e6;
  }

  ThreadPool pool_;
  std::vector<OpenFile> files_;
};

// Touches and frees more memory than copying or loading takes: a virtual machine whose host has
// taken memory back waits for it when a page is touched, and then the passes that come first, and
// those that take more memory, would wait for it.
void warm_memory(std::int64_t file_bytes) {
  constexpr std::size_t kPageBytes = 4096;
  const Buffer memory(Device::kCpu, static_cast<std::size_t>(file_bytes + file_bytes / 2));
  for (std::size_t at = 0; at < memory.size_bytes(); at += kPageBytes) {
    memory.begin()[at] = std::byte{1};
  }
}

struct Loading {
  Duration duration;
  std::int64_t weight_bytes = 0;
  std::int64_t extra_bytes = 0;
};

Loading load(const std::function<std::unique_ptr<model::CaptionModel>()>& open) {
  reset_peak_memory();
  const std::int64_t before = process_memory().resident_bytes;
  const Timer timer;
  const std::unique_ptr<model::CaptionModel> model = open();
  Loading loading = {.duration = timer.elapsed(), .weight_bytes = model->weight_bytes()};
  loading.extra_bytes = process_memory().peak_bytes - before - loading.weight_bytes;
  return loading;
}

std::string line(const char* what, std::int64_t bytes, double seconds) {
  return pad_right(what, 28) + pad_left(format_number(seconds), 8) + " s " +
         pad_left(format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / seconds)),
                  9) +
         "/s\n";
}

}  // namespace

LoadingBench bench_loading(const Context& context, const std::vector<std::filesystem::path>& files,
                           const std::function<std::unique_ptr<model::CaptionModel>()>& open,
                           const LoadingBenchOptions& options) {
  CAPTION_CHECK(options.repeat >= 1 && !files.empty(), "bench: nothing to load");
  Files readers(context, files);
  LoadingBench bench{.num_threads = context.num_threads, .file_bytes = readers.size_bytes()};
  std::vector<double> reads;
  std::vector<double> copies;
  std::vector<double> loads;
  std::vector<double> copy_work;
  std::vector<double> load_work;
  for (int i = 0; i < std::min(options.repeat, kMaxDiskPasses); ++i) {
    readers.drop_from_page_cache();
    reads.push_back(readers.read_s());
    readers.drop_from_page_cache();
    warm_memory(bench.file_bytes);
    copies.push_back(readers.copy().seconds);
    readers.drop_from_page_cache();
    warm_memory(bench.file_bytes);
    loads.push_back(load(open).duration.seconds);
  }
  bench.disk_read_s = median(std::exchange(reads, {}));
  bench.disk_copy_s = median(std::exchange(copies, {}));
  bench.disk_load_s = median(std::exchange(loads, {}));
  readers.read_s();  // what the model did not read is in the page cache, too
  for (int i = 0; i < options.repeat; ++i) {
    reads.push_back(readers.read_s());
    warm_memory(bench.file_bytes);
    const Duration copy = readers.copy();
    copies.push_back(copy.seconds);
    copy_work.push_back(copy.processor_s);
    warm_memory(bench.file_bytes);
    const Loading loading = load(open);
    loads.push_back(loading.duration.seconds);
    load_work.push_back(loading.duration.processor_s);
    bench.weight_bytes = loading.weight_bytes;
    bench.extra_bytes =
        std::max(i == 0 ? loading.extra_bytes : bench.extra_bytes, loading.extra_bytes);
  }
  bench.cached_read_s = median(std::move(reads));
  bench.cached_copy_s = median(std::move(copies));
  bench.cached_load_s = median(std::move(loads));
  bench.copy_processor_s = median(std::move(copy_work));
  bench.load_processor_s = median(std::move(load_work));
  return bench;
}

std::string to_table(const std::string& subject, const LoadingBench& bench) {
  const std::int64_t bytes = bench.file_bytes;
  return subject + "\n" + format_bytes(bytes) + " of files, " + format_bytes(bench.weight_bytes) +
         " of weights; while loading " +
         format_bytes(std::max<std::int64_t>(0, bench.extra_bytes)) + " more at the most\n\n" +
         line("page cache: files read", bytes, bench.cached_read_s) +
         line("page cache: files copied", bytes, bench.cached_copy_s) +
         line("page cache: model opened", bytes, bench.cached_load_s) +
         line("disk: files read", bytes, bench.disk_read_s) +
         line("disk: files copied", bytes, bench.disk_copy_s) +
         line("disk: model opened", bytes, bench.disk_load_s) + "\nmodel opened at " +
         format_percent(bench.share_of_page_cache()) + " of the rate of reading, " +
         format_percent(bench.share_of_copy()) + " of that of copying (" +
         format_percent(bench.share_of_copy_work()) +
         " by processor time: " + format_number(bench.copy_processor_s) + " s and " +
         format_number(bench.load_processor_s) + " s); from the disk at " +
         format_percent(bench.share_of_disk()) + " of that of reading, " +
         format_percent(bench.share_of_disk_copy()) + " of that of copying\n";
}

std::string to_json(const std::string& subject, const LoadingBench& bench) {
  JsonWriter json;
  json.begin_object()
      .add("subject", subject)
      .add("threads", std::int64_t{bench.num_threads})
      .add("file_bytes", bench.file_bytes)
      .add("weight_bytes", bench.weight_bytes)
      .add("extra_bytes", bench.extra_bytes)
      .add("cached_read_s", bench.cached_read_s)
      .add("cached_copy_s", bench.cached_copy_s)
      .add("cached_load_s", bench.cached_load_s)
      .add("disk_read_s", bench.disk_read_s)
      .add("disk_copy_s", bench.disk_copy_s)
      .add("disk_load_s", bench.disk_load_s)
      .add("copy_processor_s", bench.copy_processor_s)
      .add("load_processor_s", bench.load_processor_s)
      .add("share_of_page_cache", bench.share_of_page_cache())
      .add("share_of_copy", bench.share_of_copy())
      .add("share_of_copy_work", bench.share_of_copy_work())
      .add("share_of_disk", bench.share_of_disk())
      .add("share_of_disk_copy", bench.share_of_disk_copy());
  json.end_object();
  return json.text() + "\n";
}

}  // namespace caption::bench
