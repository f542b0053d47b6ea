// What restoring is compared with: libjpeg alone, in memory, from a progressive file's coefficients to a sequential
// file.
#ifndef PCRFS_TESTS_BENCH_COEFFICIENT_LOOP_H_
#define PCRFS_TESTS_BENCH_COEFFICIENT_LOOP_H_

#include <cstdio>
// jpeglib.h needs size_t and FILE before it.
#include <jpeglib.h>

#include <cstdlib>

#include "format/bytes.h"

namespace pcrfs::testing {

// jpeg_read_coefficients and jpeg_write_coefficients, Huffman tables as they come. libjpeg's default error handling
// ends the program, which is right for a benchmark.
inline void ReadAndWriteCoefficients(ByteSpan jpeg) {
  jpeg_error_mgr errors;
  jpeg_decompress_struct in{};
  in.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&in);
  jpeg_mem_src(&in, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&in, TRUE);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&in);
  jpeg_compress_struct out{};
  out.err = &errors;
  jpeg_create_compress(&out);
  jpeg_copy_critical_parameters(&in, &out);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &buffer, &size);
  jpeg_write_coefficients(&out, coefficients);
  jpeg_finish_compress(&out);
  jpeg_destroy_compress(&out);
  jpeg_destroy_decompress(&in);
  std::free(buffer);
}

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_BENCH_COEFFICIENT_LOOP_H_
