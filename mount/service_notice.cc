#include "mount/service_notice.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "format/file.h"

namespace pcrfs {
namespace {

void Send(const std::string& message) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return;
  const std::string_view path = name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An abstract name may fill it, a path ends in a NUL.
  if (path.size() > sizeof address.sun_path - (path[0] == '@' ? 0 : 1)) return;
  path.copy(address.sun_path, path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd to(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!to.valid()) return;
  const timeval patience{2, 0};
  (void)setsockopt(to.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)sendto(to.get(), message.data(), message.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
               size);
}

// A line feed would begin another variable.
std::string Status(std::string_view sentence) {
  std::string line = "STATUS=";
  for (const char c : sentence) line += c == '\n' ? ' ' : c;
  return line;
}

}  // namespace

void NotifyReady(pid_t process, std::string_view sentence) {
  Send("READY=1\nMAINPID=" + std::to_string(process) + "\n" + Status(sentence));
}

void NotifyFailed(std::string_view sentence) { Send(Status(sentence)); }

void NotifyStopping() { Send("STOPPING=1"); }

}  // namespace pcrfs
