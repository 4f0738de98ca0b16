// records/output_preview.h: what an output holds, for a run that is only planned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "records/format.h"
#include "records/manifest.h"
#include "records/record_file.h"
#include "records/sink.h"

namespace caption::records {

// What the run would do about one clip and prompt.
enum class Planned {
  kMake,        // nothing is known of it
  kMakeAgain,   // its record is to be retried, or was made with other settings
  kKeep,        // its record is there
  kKeepFailed,  // its record is there, of a failure that is not tried again
  kTakeOver,    // a file of the same content has its record
};

// Means over the captions of an output, in milliseconds of each stage's time.
struct MeanTimes {
  std::int64_t num_captions = 0;  // whose records tell all three
  double decode_ms = 0;
  double vision_ms = 0;
  double engine_ms = 0;
};

// What the run takes for a clip's content, where its file lies where it lay.
enum class KnownBy {
  kDigest,  // size and time stand for it while nobody has read the file
  kTimes,   // size and time, also of records without a digest (--trust-times)
};

// A RecordFile that nothing is written to: the file is neither created nor locked nor mended.
class OutputPreview {
 public:
  // Throws as RecordFile, but for an output that another run is writing.
  OutputPreview(const std::filesystem::path& path, Format format, const Manifest& manifest,
                Existing existing, const Retry& retry = {}, KnownBy known_by = KnownBy::kDigest);
  ~OutputPreview();
  OutputPreview(const OutputPreview&) = delete;
  OutputPreview& operator=(const OutputPreview&) = delete;

  // Without clip.id, size and time stand for the content of a file at its place; elsewhere nothing
  // is then found.
  Planned plan(const ClipIdentity& clip, std::string_view prompt);
  // Whether a record is of a file of this size: only its digest tells whether the content is known.
  bool may_know(std::int64_t size_bytes) const;

  std::int64_t num_found() const;
  MeanTimes mean_times() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::records
