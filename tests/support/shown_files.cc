#include "tests/support/shown_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "format/file.h"
#include "tests/support/temp_dir.h"

namespace pcrfs::testing {
namespace {

// Errno, or 0.
int NamesIn(const std::string& path, std::vector<std::string>& names) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) return errno;
  errno = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return errno;
  std::sort(names.begin(), names.end());
  return 0;
}

}  // namespace

ShownFiles::ShownFiles(const std::string& mount, const std::vector<int>& levels) {
  std::vector<std::string> ahead;
  for (const int level : levels) ahead.push_back("scan" + std::to_string(level));
  while (!ahead.empty()) {
    Folder folder{std::move(ahead.back()), {}};
    ahead.pop_back();
    (void)NamesIn(mount + "/" + folder.path, folder.names);
    for (const std::string& name : folder.names) {
      const std::string path = folder.path + "/" + name;
      if (std::filesystem::is_directory(mount + "/" + path))
        ahead.push_back(path);
      else
        files_.push_back({path, ReadFile(mount + "/" + path)});
    }
    folders_.push_back(std::move(folder));
  }
}

int ShownFiles::ReadSome(const std::string& mount, std::mt19937_64& random) const {
  const File& file = Any(random);
  const UniqueFd fd(open((mount + "/" + file.path).c_str(), O_RDONLY));
  if (!fd.valid()) return errno;
  const bool whole = random() % 2 == 0;
  const size_t offset = whole ? 0 : random() % (file.bytes.size() + 1);
  Bytes part(whole ? file.bytes.size() + 10 : random() % 20'000);
  const ssize_t got = pread(fd.get(), part.data(), part.size(), static_cast<off_t>(offset));
  if (got < 0) return errno;
  const ByteSpan expected =
      ByteSpan(file.bytes).subspan(offset, std::min<size_t>(part.size(), file.bytes.size() - offset));
  return std::ranges::equal(ByteSpan(part).first(static_cast<size_t>(got)), expected) ? 0 : kWrong;
}

int ShownFiles::ListSome(const std::string& mount, std::mt19937_64& random) const {
  const Folder& folder = folders_[random() % folders_.size()];
  std::vector<std::string> names;
  if (const int error = NamesIn(mount + "/" + folder.path, names); error != 0) return error;
  return names == folder.names ? 0 : kWrong;
}

int ShownFiles::StatSome(const std::string& mount, std::mt19937_64& random) const {
  const File& file = Any(random);
  const std::string path = mount + "/" + file.path;
  struct stat seen {};
  if (stat(path.c_str(), &seen) != 0) return errno;
  if (!S_ISREG(seen.st_mode) || static_cast<size_t>(seen.st_size) != file.bytes.size()) return kWrong;
  if (stat((path + std::to_string(random() % 1000)).c_str(), &seen) == 0) return kWrong;
  return errno == ENOENT ? 0 : errno;
}

}  // namespace pcrfs::testing
