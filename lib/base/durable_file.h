// base/durable_file.h: the system calls that durable files need.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace caption {

// Error code for an output that cannot be opened, read or written: kOutOfMemory for lack of memory
// or descriptors, otherwise kIo.
ErrorCode output_error_code(int error_number);

// Writes all of `text`, in one write() unless the system accepts less. Waits while a pipe is full,
// also on a non-blocking descriptor. Returns 0 or errno.
int write_whole(int descriptor, std::string_view text);

// Resolves symbolic links, because replacing a link would leave its target unchanged.
std::filesystem::path real_path(const std::filesystem::path& path);

// Makes a rename in `folder` durable across a power cut. Throws Error as output_error_code().
void sync_folder(const std::filesystem::path& folder);

// The begin of the names that write_file_atomically() gives its temporary files.
inline constexpr std::string_view kTemporaryBegin = ".caption-cli-";

// Replaces `path` atomically: temporary file in the same folder, fsync, rename, fsync of the
// folder. The file keeps its permissions. Throws Error as output_error_code(); the old file is then
// unchanged unless only the last step failed. A process that is killed meanwhile leaves the
// temporary file only if that happens right before the rename, or on a file system without unnamed
// files (O_TMPFILE). May be called by several threads and processes for one path: one of the
// texts then stays.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace caption
