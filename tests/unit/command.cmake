# Parts of the command on their own.
set(cli ${PROJECT_SOURCE_DIR}/cli)
ringattn_add_test(test_distance SOURCES test_distance.c ${cli}/compare.c LINK test_support)
target_include_directories(test_distance PRIVATE ${PROJECT_SOURCE_DIR})

ringattn_add_test(test_verify
  SOURCES test_verify.c ${cli}/args.c ${cli}/cmd_verify.c ${cli}/compare.c ${cli}/interrupt.c ${cli}/report.c LINK test_support)
target_include_directories(test_verify PRIVATE ${PROJECT_SOURCE_DIR})
target_link_options(test_verify PRIVATE -Wl,--wrap=ra_forward)

ringattn_add_test(test_interrupt SOURCES test_interrupt.c ${cli}/interrupt.c ${cli}/report.c LINK test_support)
target_include_directories(test_interrupt PRIVATE ${PROJECT_SOURCE_DIR})
set_tests_properties(test_interrupt PROPERTIES TIMEOUT 60)
