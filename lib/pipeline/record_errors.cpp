#include "pipeline/internal/record_errors.h"

#include <new>
#include <system_error>

#include "records/file_name.h"

namespace caption::pipeline {

void set_failed(records::Record& record, ErrorCode code, const std::string& message) {
  record.status = records::Status::kFailed;
  record.caption.clear();
  record.reason.clear();
  record.finish_reason.clear();
  // Messages contain file names, which may not be valid UTF-8.
  record.error = {.code = std::string(error_code_name(code)),
                  .message = records::escape_file_name(message)};
}

void guard(records::Record& record, const std::string& operation,
           const std::function<void()>& work) {
  const std::string path = records::unescape_file_name(record.video);
  const auto fail = [&](ErrorCode code, const std::string& what) {
    set_failed(record, code, what.starts_with(path) ? what : path + ": " + operation + ": " + what);
  };
  try {
    work();
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory,
         "not enough memory; lower --max-frame-pixels, --frames or --threads");
  } catch (const std::system_error& error) {
    fail(ErrorCode::kOutOfMemory, error.what());
  } catch (const std::exception& error) {
    fail(ErrorCode::kInternal, error.what());
  }
}

}  // namespace caption::pipeline
