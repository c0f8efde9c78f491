# SPDX-License-Identifier: Apache-2.0
# RINGATTN_PYTHON: what the Python package carries, as install component "python" (pyproject.toml asks for it):
#     lib/libringattn.so                      one file, because a wheel has no links
#     lib/libringattn_openmpi.so, _mpich.so   for each MPI that is here; they link the system's
#     bin/ringattn, include/ringattn/
set_property(TARGET ringattn PROPERTY VERSION)
set_property(TARGET ringattn PROPERTY SOVERSION)
install(TARGETS ringattn LIBRARY DESTINATION lib COMPONENT python)
install(TARGETS ringattn_command RUNTIME DESTINATION bin COMPONENT python)
install(DIRECTORY include/ringattn DESTINATION include COMPONENT python PATTERN multihead.h EXCLUDE)
# The full text of the licence, where this system has it.
install(FILES /usr/share/common-licenses/Apache-2.0 DESTINATION . RENAME LICENSE.txt COMPONENT python OPTIONAL)

foreach(name openmpi mpich)
  find_program(mpicc_${name} NAMES mpicc.${name})
  mark_as_advanced(mpicc_${name})
  if(NOT mpicc_${name})
    continue()
  endif()
  execute_process(COMMAND ${mpicc_${name}} -show OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(shown UNIX_COMMAND "${shown}")
  set(includes ${shown})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(links ${shown})
  list(FILTER links INCLUDE REGEX "^-[Ll]")
  string(TOUPPER RA_FOR_${name} for_this_mpi)

  set(part ringattn_python_${name})
  set(folder src/transport/mpi)
  add_library(${part} SHARED ${folder}/launcher.c ${folder}/messages.c ${folder}/mpi.c ${folder}/words.c)
  target_include_directories(${part} SYSTEM PRIVATE ${includes})
  target_compile_definitions(${part} PRIVATE ${for_this_mpi} RA_BUILDING)
  target_link_libraries(${part} PRIVATE ringattn ${links})
  set_target_properties(${part} PROPERTIES OUTPUT_NAME ringattn_${name} BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN" LINK_OPTIONS "-Wl,--version-script=${PROJECT_SOURCE_DIR}/src/ringattn.map")
  install(TARGETS ${part} LIBRARY DESTINATION lib COMPONENT python)
endforeach()
