// records/output_preview.h: reads an existing output without changing it, for dry runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "records/existing.h"
#include "records/format.h"
#include "records/manifest.h"
#include "records/sink.h"

namespace caption::records {

// What the run would do for one clip and prompt.
enum class Planned {
  kMake,        // there is no record to use
  kMakeAgain,   // its record is to be retried, has other settings, or is a machine failure
  kKeep,        // its record exists
  kKeepFailed,  // its record exists and is a failure that is not retried
  kTakeOver,    // another file with the same content has a record, which is copied
};

// Mean duration of each stage over the captions of an output, in milliseconds.
struct MeanTimes {
  std::int64_t num_captions = 0;  // records with a caption and engine_ms > 0
  double decode_ms = 0;
  double vision_ms = 0;
  double engine_ms = 0;
};

// How the run recognises the content of a clip whose path is unchanged.
enum class KnownBy {
  kDigest,  // records with a digest; until the file is read, its size and time are compared
  kTimes,   // size and time only, also for records without a digest (--trust-times)
};

// Read-only counterpart of RecordFile: it neither creates nor locks nor repairs the file.
class OutputPreview {
 public:
  // Throws as RecordFile does, except that an output being written by another run is accepted
  // (is_being_written()).
  OutputPreview(const std::filesystem::path& path, Format format, const Manifest& manifest,
                Existing existing, const Retry& retry = {}, KnownBy known_by = KnownBy::kDigest);
  ~OutputPreview();
  OutputPreview(const OutputPreview&) = delete;
  OutputPreview& operator=(const OutputPreview&) = delete;

  // Without clip.id, a record at the same path is compared by size and time, and records at other
  // paths are not considered.
  Planned plan(const ClipIdentity& clip, std::string_view caption);
  // Whether some record describes a file of this size. If so, only the digest of the file can tell
  // whether its content is known.
  bool may_know(std::int64_t size_bytes) const;

  // Whether another run was writing the output, which would end RecordFile with kOutputConflict.
  bool is_being_written() const;
  std::int64_t num_found() const;
  MeanTimes mean_times() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::records
