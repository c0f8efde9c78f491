/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells two files apart without reading them: size, time of the last change, and a checksum of sampled places. For
 * ranks that must read the same inputs, for runs that go on later, and for inputs that must not change meanwhile.
 */
#ifndef RA_IO_FINGERPRINT_H
#define RA_IO_FINGERPRINT_H

#include "base/status.h"

/*
 * "1024 bytes, modified SECONDS.NANOSECONDS, sample HEX" of the open file. The sample is of its bytes `first` to
 * `first`
 * + `count`, both ends of them and places in between: all of them where there are not more than 128 KiB.
 */
ra_status ra_file_fingerprint(int fd, const char *path, int64_t first, int64_t count, char *text, size_t size);

#endif
