# `cmake --install`: a prefix that can be moved, for CMake (find_package(ringattn)) and for pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS ringattn ringattn_static EXPORT ringattn)
install(DIRECTORY include/ringattn TYPE INCLUDE)
if(RINGATTN_COMMAND)
  install(TARGETS ringattn_command)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn)
install(EXPORT ringattn NAMESPACE ringattn:: DESTINATION ${package_folder} FILE ringattnConfig.cmake)
write_basic_package_version_file(ringattnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringattnConfigVersion.cmake DESTINATION ${package_folder})

# pkg-config finds the prefix from where the file lies, however deep the library folder is.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/ringattn.pc.in ringattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ringattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
