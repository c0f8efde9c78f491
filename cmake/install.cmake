# `cmake --install`: a prefix that can be moved, for CMake (find_package(ringattn)) and for pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS ringattn ringattn_static EXPORT ringattn)
install(DIRECTORY include/ringattn TYPE INCLUDE)
if(RINGATTN_COMMAND)
  install(TARGETS ringattn_command)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn)
install(EXPORT ringattn NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ringattnTargets.cmake)
write_basic_package_version_file(ringattnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/ringattnConfig.cmake ${PROJECT_BINARY_DIR}/ringattnConfigVersion.cmake
  DESTINATION ${package_folder})

# pkg-config finds the prefix from where the file lies, however deep the library folder is.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/ringattn.pc.in ringattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ringattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

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
  install(TARGETS ringattn_mpi ringattn_mpi_static EXPORT ${mpi_package})
  install(EXPORT ${mpi_package} NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ${mpi_package}Targets.cmake)
  configure_file(cmake/ringattn_oneConfig.cmake.in ${mpi_package}Config.cmake @ONLY)
  write_basic_package_version_file(${mpi_package}ConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${mpi_package}Config.cmake ${PROJECT_BINARY_DIR}/${mpi_package}ConfigVersion.cmake
    DESTINATION ${package_folder})
  write_basic_package_version_file(ringattn_mpiConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES cmake/ringattn_mpiConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_mpiConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_mpi)

  configure_file(cmake/ringattn_one.pc.in ${mpi_package}.pc @ONLY)
  configure_file(cmake/ringattn_mpi.pc.in ringattn_mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${mpi_package}.pc ${PROJECT_BINARY_DIR}/ringattn_mpi.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  file(CONFIGURE OUTPUT mpi_${RINGATTN_MPI_NAME}.h CONTENT "/* lib@mpi_package@ is installed with this header. */\n")
  install(FILES ${PROJECT_BINARY_DIR}/mpi_${RINGATTN_MPI_NAME}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringattn)
  if(RINGATTN_COMMAND)
    install(CODE "execute_process(COMMAND \${CMAKE_COMMAND} -E copy ringattn ringattn.${RINGATTN_MPI_NAME}
      WORKING_DIRECTORY \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})")
  endif()
endif()

# The multi-head layer is a package of its own, too: find_package(ringattn) knows no BLAS.
if(RINGATTN_HAVE_BLAS)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_multihead)
  install(TARGETS ringattn_multihead EXPORT ringattn_multihead)
  install(EXPORT ringattn_multihead NAMESPACE ringattn:: DESTINATION ${package_folder}
    FILE ringattn_multiheadTargets.cmake)
  write_basic_package_version_file(ringattn_multiheadConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES cmake/ringattn_multiheadConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_multiheadConfigVersion.cmake
    DESTINATION ${package_folder})
  configure_file(cmake/ringattn_multihead.pc.in ringattn_multihead.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ringattn_multihead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
