# SPDX-License-Identifier: Apache-2.0
# What reads benchmark rows, which is there where the command is.
if(TARGET ringattn_report)
  ringattn_add_test(test_fit SOURCES test_fit.c LINK test_support ringattn_bench)
  foreach(part compare findings many_rows rows)
    ringattn_add_test(test_${part} SOURCES test_${part}.c made_rows.c LINK test_support ringattn_report)
  endforeach()
  set_tests_properties(test_many_rows PROPERTIES TIMEOUT 60)
endif()
