# SPDX-License-Identifier: Apache-2.0
# The linker hands the library's allocations to the test. Those inside the C and OpenMP runtimes stay as they are.
ringattn_add_test(test_allocation_failure SOURCES test_allocation_failure.c)
foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup free)
  target_link_options(test_allocation_failure PRIVATE -Wl,--wrap=${function})
endforeach()
