# SPDX-License-Identifier: Apache-2.0
# Files and made-up data.
ringattn_add_test(test_npy SOURCES test_npy.c LINK test_support)
ringattn_add_test(test_safetensors SOURCES test_safetensors.c LINK test_support)
ringattn_add_test(test_fingerprint SOURCES test_fingerprint.c LINK test_support)
ringattn_add_test(test_generator SOURCES test_generator.c LINK test_support)
foreach(part storage storage_generator storage_null)
  ringattn_add_test(test_${part} SOURCES test_${part}.c views.c LINK test_support)
endforeach()
