// Errors as values: what every fallible function of pcrfs returns.
//
// `Result<T>` is a T or an `Error`. The message is a whole sentence for a person: what was done, to which file, at
// which offset, what was expected and what was found. It is written where the fault is seen and passed up unchanged
// or with more context put in front of it (`WithContext`); nothing below mount/ prints or logs.
//
// Thread safety: values, no shared state. No exceptions of ours exist; std::bad_alloc passes through.
#ifndef PCRFS_FORMAT_ERROR_H_
#define PCRFS_FORMAT_ERROR_H_

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace pcrfs {

// What a caller may want to tell apart. fs/errno_map.h has the one table from here to errno.
enum class ErrorCode {
  kInvalidArgument,  // the request itself makes no sense
  kNotFound,         // no such file, entry or shard
  kExists,           // something is there that must not be (a non-empty target, a second pack)
  kNotDirectory,     // a path goes on behind a file
  kIsDirectory,      // a file was asked for, a directory is there
  kPermission,       // the operating system refused
  kNoSpace,          // the device or quota is full
  kBusy,             // locked by another process
  kIo,               // reading or writing failed
  kDamaged,          // bytes contradict the format or their checksum
  kStale,            // the file was replaced or has shrunk since its index was read
  kUnsupported,      // legal, but of a version or kind this program does not read
  kLimit,            // beyond a limit of the format
  kInterrupted,      // the caller gave up while waiting
  kShortage,         // no descriptors or memory left: says nothing of the file that was asked for
};

struct Error {
  ErrorCode code = ErrorCode::kIo;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

// `return Fail(ErrorCode::kDamaged, "...");` in any function that returns a Result.
[[nodiscard]] inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Passes the error of `result` up as it is.
template <typename T>
[[nodiscard]] tl::unexpected<Error> PassOn(Result<T>&& result) {
  return tl::unexpected<Error>(std::move(result).error());
}

// The same with "context: " in front of the message.
[[nodiscard]] tl::unexpected<Error> WithContext(std::string_view context, Error error);

// An errno value from a system call: code by the errno's meaning, message "what: strerror".
[[nodiscard]] tl::unexpected<Error> SystemFail(std::string_view what, int errno_value);

// A path or name for a message: quoted, control bytes and bytes outside ASCII that are not UTF-8 as \xNN, so that no
// file name can forge a log line or upset a terminal.
[[nodiscard]] std::string Quoted(std::string_view name);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ERROR_H_
