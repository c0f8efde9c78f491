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

# libringattn_mpi is a package of its own: whoever looks for ringattn alone needs no MPI.
if(RINGATTN_HAVE_MPI)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_mpi)
  get_filename_component(mpi_wrapper ${MPI_C_COMPILER} NAME)
  install(TARGETS ringattn_mpi ringattn_mpi_static EXPORT ringattn_mpi)
  install(EXPORT ringattn_mpi NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ringattn_mpiTargets.cmake)
  configure_file(cmake/ringattn_mpiConfig.cmake.in ringattn_mpiConfig.cmake @ONLY)
  write_basic_package_version_file(ringattn_mpiConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  configure_file(cmake/ringattn_mpi.pc.in ringattn_mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ringattn_mpiConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_mpiConfigVersion.cmake
    DESTINATION ${package_folder})
  install(FILES ${PROJECT_BINARY_DIR}/ringattn_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
