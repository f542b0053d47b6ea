#include "format/error.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace pcrfs {
namespace {

ErrorCode CodeOfErrno(int errno_value) {
  switch (errno_value) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return ErrorCode::kExists;
    case ENOTDIR:
      return ErrorCode::kNotDirectory;
    case EISDIR:
      return ErrorCode::kIsDirectory;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::kNoSpace;
    case EBUSY:
    case EWOULDBLOCK:
      return ErrorCode::kBusy;
    case ESTALE:
      return ErrorCode::kStale;
    case EINTR:
      return ErrorCode::kInterrupted;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::kShortage;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kIo;
  }
}

// Which limit was met, for those that are the user's to raise.
std::string LimitMet(int errno_value) {
  rlimit limit{};
  if (errno_value == ENFILE) return " (of all processes together; sysctl fs.file-max is the limit to raise)";
  if (errno_value != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return " (this process may have " + std::to_string(limit.rlim_cur) + "; 'ulimit -n' is the limit to raise)";
}

// Length of the well-formed UTF-8 sequence of printable kind at the start of `text`, 0 when there is none.
size_t PrintableUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xC2 && byte(1) < 0xA0) return 0;                                         // C1 control characters
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90)) return 0;  // overlong
  if ((first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90)) return 0;
  if (first == 0xE2 && byte(1) == 0x80 && (byte(2) >= 0xA8 && byte(2) <= 0xAE)) return 0;  // line and bidi controls
  if (first == 0xE2 && byte(1) == 0x81 && (byte(2) >= 0xA6 && byte(2) <= 0xA9)) return 0;
  return length;
}

}  // namespace

tl::unexpected<Error> WithContext(std::string_view context, Error error) {
  error.message = std::string(context) + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> SystemFail(std::string_view what, int errno_value) {
  return Fail(CodeOfErrno(errno_value),
              std::string(what) + ": " + std::generic_category().message(errno_value) + LimitMet(errno_value));
}

std::string Quoted(std::string_view name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (size_t i = 0; i < name.size();) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    if (c >= 0x20 && c < 0x7F && c != '\\' && c != '\'') {
      out += static_cast<char>(c);
      ++i;
    } else if (const size_t length = PrintableUtf8(name.substr(i)); length > 0) {
      out += name.substr(i, length);
      i += length;
    } else {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      ++i;
    }
  }
  return out + "'";
}

}  // namespace pcrfs
