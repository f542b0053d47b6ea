// What a mount shows, remembered, and readers that compare with it while things happen to the mount.
//
// Immutable after construction: any number of threads, and children of a fork, may read.
#ifndef PCRFS_TESTS_SUPPORT_SHOWN_FILES_H_
#define PCRFS_TESTS_SUPPORT_SHOWN_FILES_H_

#include <random>
#include <string>
#include <vector>

#include "format/bytes.h"

namespace pcrfs::testing {

class ShownFiles {
 public:
  struct File {
    std::string path;  // below the mount: "scan3/n00/0.jpg"
    Bytes bytes;

    friend bool operator==(const File&, const File&) = default;
  };
  struct Folder {
    std::string path;
    std::vector<std::string> names;  // sorted, without "." and ".."
  };

  // Reads all there is below the levels' folders of `mount`.
  ShownFiles(const std::string& mount, const std::vector<int>& levels);

  [[nodiscard]] const std::vector<File>& files() const { return files_; }
  [[nodiscard]] const std::vector<Folder>& folders() const { return folders_; }

  // 0 when it read what it should; kWrong when it read anything else; the errno when it was refused.
  static constexpr int kWrong = -1;
  // A part of some file, or the whole of it.
  [[nodiscard]] int ReadSome(const std::string& mount, std::mt19937_64& random) const;
  // A listing of some folder.
  [[nodiscard]] int ListSome(const std::string& mount, std::mt19937_64& random) const;
  // The size and kind of some file, and a name that is not there.
  [[nodiscard]] int StatSome(const std::string& mount, std::mt19937_64& random) const;

 private:
  [[nodiscard]] const File& Any(std::mt19937_64& random) const { return files_[random() % files_.size()]; }

  std::vector<File> files_;
  std::vector<Folder> folders_;
};

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_SHOWN_FILES_H_
