# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: a prefix that can be moved, for CMake (find_package(ringattn)) and for pkg-config. Each component is a
# Debian package (cmake/packages.cmake): library and development; the same for each MPI and for the multi-head layer;
# command, and the command of an MPI.
include(CMakePackageConfigHelpers)

install(TARGETS ringattn EXPORT ringattn LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS ringattn_static EXPORT ringattn ARCHIVE COMPONENT development)
install(DIRECTORY include/ringattn TYPE INCLUDE COMPONENT development)
if(RINGATTN_COMMAND)
  install(TARGETS ringattn_command RUNTIME COMPONENT command)
  if(TARGET ringattn_manual)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT command)
  endif()
  set(RINGATTN_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where zsh looks for completions")
  install(FILES cli/completion/ringattn.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME ringattn COMPONENT command)
  install(FILES cli/completion/_ringattn DESTINATION ${RINGATTN_ZSH_FOLDER} COMPONENT command)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn)
install(EXPORT ringattn NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ringattnTargets.cmake
  COMPONENT development)
write_basic_package_version_file(ringattnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/ringattnConfig.cmake ${PROJECT_BINARY_DIR}/ringattnConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)

# pkg-config finds the prefix from where the file lies, however deep the library folder is.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/ringattn.pc.in ringattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ringattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# The MPI transport is a package of its own: whoever looks for ringattn alone needs no MPI. Everything has its MPI's name in
# it, so that builds for several can share a prefix:
#
#     lib/libringattn_openmpi.*   pkgconfig/ringattn_openmpi.pc   cmake/ringattn_openmpi   bin/ringattn.openmpi
#     include/ringattn/mpi_openmpi.h   says to <ringattn/mpi.h> that there is such a library
#
# What has none is the same whichever MPI it is (ringattn_mpiConfig.cmake looks for the libraries beside it), or belongs to
# the one that was installed last: ringattn_mpi.pc and bin/ringattn.
if(RINGATTN_HAVE_MPI)
  set(mpi_package ringattn_${RINGATTN_MPI_NAME})
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/${mpi_package})
  get_filename_component(mpi_wrapper ${MPI_C_COMPILER} NAME)
  string(TOUPPER RA_FOR_${RINGATTN_MPI_NAME} for_this_mpi)
  set(development ${RINGATTN_MPI_NAME}_development)
  install(TARGETS ringattn_mpi EXPORT ${mpi_package}
    LIBRARY COMPONENT ${RINGATTN_MPI_NAME} NAMELINK_COMPONENT ${development})
  install(TARGETS ringattn_mpi_static EXPORT ${mpi_package} ARCHIVE COMPONENT ${development})
  install(EXPORT ${mpi_package} NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ${mpi_package}Targets.cmake
    COMPONENT ${development})
  configure_file(cmake/ringattn_oneConfig.cmake.in ${mpi_package}Config.cmake @ONLY)
  write_basic_package_version_file(${mpi_package}ConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${mpi_package}Config.cmake ${PROJECT_BINARY_DIR}/${mpi_package}ConfigVersion.cmake
    DESTINATION ${package_folder} COMPONENT ${development})
  write_basic_package_version_file(ringattn_mpiConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES cmake/ringattn_mpiConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_mpiConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_mpi COMPONENT any_mpi)

  configure_file(cmake/ringattn_one.pc.in ${mpi_package}.pc @ONLY)
  configure_file(cmake/ringattn_mpi.pc.in ringattn_mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${mpi_package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT ${development})
  install(FILES ${PROJECT_BINARY_DIR}/ringattn_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT any_mpi)

  file(CONFIGURE OUTPUT mpi_${RINGATTN_MPI_NAME}.h CONTENT "/* lib@mpi_package@ is installed with this header. */\n")
  install(FILES ${PROJECT_BINARY_DIR}/mpi_${RINGATTN_MPI_NAME}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringattn
    COMPONENT ${development})
  if(RINGATTN_COMMAND)
    install(PROGRAMS $<TARGET_FILE:ringattn_command> DESTINATION ${CMAKE_INSTALL_BINDIR}
      RENAME ringattn.${RINGATTN_MPI_NAME} COMPONENT ${RINGATTN_MPI_NAME}_command)
  endif()
endif()

# The multi-head layer is a package of its own, too: find_package(ringattn) knows no BLAS.
if(RINGATTN_HAVE_BLAS)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_multihead)
  install(TARGETS ringattn_multihead EXPORT ringattn_multihead
    LIBRARY COMPONENT multihead NAMELINK_COMPONENT multihead_development)
  install(EXPORT ringattn_multihead NAMESPACE ringattn:: DESTINATION ${package_folder}
    FILE ringattn_multiheadTargets.cmake COMPONENT multihead_development)
  write_basic_package_version_file(ringattn_multiheadConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES cmake/ringattn_multiheadConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_multiheadConfigVersion.cmake
    DESTINATION ${package_folder} COMPONENT multihead_development)
  configure_file(cmake/ringattn_multihead.pc.in ringattn_multihead.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ringattn_multihead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT multihead_development)
endif()
