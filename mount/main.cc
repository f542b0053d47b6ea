// The program pcrfs: its command line in, its exit status out.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "fs/shard_set.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/options.h"

namespace {

// A program started with one of them closed would open a shard or /dev/fuse under its number and write messages there.
void KeepStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDONLY);  // so that writing to it is still an error
}

// One that takes rights from the owner would lock us out of the folders and files that we make.
void KeepOwnersRights() {
  const mode_t asked = umask(0777);
  (void)umask(asked & ~mode_t{S_IRWXU});
}

int Leave(const pcrfs::EarlyExit& exit) {
  if (exit.status != pcrfs::kExitDone) {
    (void)std::fputs(exit.text.c_str(), stderr);
    return exit.status;
  }
  const auto printed = pcrfs::Print(exit.text);
  if (!printed) pcrfs::Complain(printed.error().message);
  return printed ? pcrfs::kExitDone : pcrfs::kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  KeepOwnersRights();
  pcrfs::RaiseDescriptorLimit();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond a limit ('ulimit -f') is an error with a sentence
  try {
    const auto command = pcrfs::ParseCommandLine({argv, argv + argc});
    if (!command) return Leave(command.error());
    const auto status = std::visit([](const auto& chosen) { return pcrfs::Run(chosen); }, *command);
    if (status) return *status;
    pcrfs::Complain(status.error().message);
  } catch (const std::exception& error) {
    pcrfs::Complain(pcrfs::SentenceFor(error));
  }
  return pcrfs::kExitFailed;
}
