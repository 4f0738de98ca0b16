// records/internal/moved_record.h: records of files that were moved or copied.
#pragma once

#include <string>

#include "records/record.h"
#include "records/sink.h"

namespace caption::records {

// Converts the record of another file with the same content into a record of this clip: replaces
// the names, and sets `copy_of` to the file whose caption it is (of a copy the one that it was
// copied from, unless that is this clip or has other content by now) or, when the record's file no
// longer exists, `moved_from`. Reads the file that a copy names.
Record under_new_name(Record record, const ClipIdentity& clip, const std::string& video);

// Whether the file that the record names no longer exists or has other content. Reads the file if
// only its time differs.
bool is_gone(const Record& record);

}  // namespace caption::records
