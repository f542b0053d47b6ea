// A directory of a test's own, removed with all that is in it when the object goes.
#ifndef PCRFS_TESTS_SUPPORT_TEMP_DIR_H_
#define PCRFS_TESTS_SUPPORT_TEMP_DIR_H_

#include <string>
#include <string_view>

#include "format/bytes.h"

namespace pcrfs::testing {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // path() + "/" + name.
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Writes a file, making the folders above it; a failure ends the test program.
void WriteFile(const std::string& path, ByteSpan bytes);
void WriteFile(const std::string& path, std::string_view text);
// The whole of a file; a failure ends the test program.
[[nodiscard]] Bytes ReadFile(const std::string& path);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_TEMP_DIR_H_
