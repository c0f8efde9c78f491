# SPDX-License-Identifier: Apache-2.0
# Parts of the command on their own.
set(cli ${PROJECT_SOURCE_DIR}/cli)
ringattn_add_test(test_distance SOURCES test_distance.c ${cli}/compare.c LINK test_support)
target_include_directories(test_distance PRIVATE ${PROJECT_SOURCE_DIR})

ringattn_add_test(test_verify
  SOURCES test_verify.c ${cli}/arg_table.c ${cli}/args.c ${cli}/cmd_verify.c ${cli}/compare.c ${cli}/help.c
          ${cli}/help_man.c ${cli}/help_words.c ${cli}/interrupt.c ${cli}/report.c ${cli}/verify_data.c
  LINK test_support)
target_include_directories(test_verify PRIVATE ${PROJECT_SOURCE_DIR})
target_link_options(test_verify PRIVATE -Wl,--wrap=ra_forward -Wl,--wrap=ra_backward)

ringattn_add_test(test_interrupt SOURCES test_interrupt.c ${cli}/interrupt.c ${cli}/report.c LINK test_support)
target_include_directories(test_interrupt PRIVATE ${PROJECT_SOURCE_DIR})
set_tests_properties(test_interrupt PROPERTIES TIMEOUT 60)

ringattn_add_test(test_output_file
  SOURCES test_output_file.c ${cli}/interrupt.c ${cli}/output_file.c ${cli}/report.c LINK test_support)
target_include_directories(test_output_file PRIVATE ${PROJECT_SOURCE_DIR})
target_link_options(test_output_file PRIVATE -Wl,--wrap=fsync -Wl,--wrap=rename)

ringattn_add_test(test_free_memory SOURCES test_free_memory.c ${cli}/free_memory.c LINK test_support)
target_include_directories(test_free_memory PRIVATE ${PROJECT_SOURCE_DIR})
target_link_options(test_free_memory PRIVATE -Wl,--wrap=fopen)
