# SPDX-License-Identifier: Apache-2.0
# ringattn_add_test(NAME SOURCES file... [LABELS label...] [LINK libraries...]): a cmocka program, run by CTest.
# It links the archive, and may include the library's own headers, so that it can test what is not exported.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

function(ringattn_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "SOURCES;LABELS;LINK")
  add_executable(${name} ${test_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ringattn_static PkgConfig::CMOCKA m ${test_LINK})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}")
endfunction()
