# SPDX-License-Identifier: Apache-2.0
# RINGATTN_PACKAGES: Debian packages by CPack, one a component of cmake/install.cmake. tools/package.sh makes three builds,
# folders beside each other, and puts them together here:
#     alone               libringattn0, libringattn-dev, libringattn-multihead0 and -dev, ringattn
#     openmpi, mpich      libringattn-openmpi0 and -dev, ringattn-openmpi; the same for mpich
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ringattn)
set(CPACK_PACKAGE_CONTACT "The authors of ringattn <ringattn@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENTS_ALL)
set(CPACK_INSTALL_CMAKE_PROJECTS ${PROJECT_BINARY_DIR} ringattn ALL /)
set(version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# Libraries of these packages, for dpkg-shlibdeps, which cannot know which package they will be in.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)

# The notice and the full text of the licence, from this system.
set(licence_text /usr/share/common-licenses/Apache-2.0)
if(NOT EXISTS ${licence_text})
  message(FATAL_ERROR "RINGATTN_PACKAGES: packages carry the text of their licence, and ${licence_text} is not here")
endif()
file(READ LICENSE licence_notice)
file(READ ${licence_text} licence_text)
set(copyright ${PROJECT_BINARY_DIR}/copyright)
file(WRITE ${copyright} "${licence_notice}\n${licence_text}")

# deb(COMPONENT PACKAGE SECTION SUMMARY [PACKAGES IT NEEDS])
function(deb component package section summary)
  string(TOUPPER ${component} key)
  list(JOIN ARGN ", " needs)
  install(FILES ${copyright} DESTINATION share/doc/${package} COMPONENT ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\nLicence: Apache-2.0." PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${needs}" PARENT_SCOPE)
endfunction()

set(core "libringattn${PROJECT_VERSION_MAJOR} ${version}")
set(headers "libringattn-dev ${version}")
deb(library libringattn${PROJECT_VERSION_MAJOR} libs "exact softmax attention: the library")
deb(development libringattn-dev libdevel "exact softmax attention: headers and archive" ${core} libjansson-dev)
deb(command ringattn utils "exact softmax attention: the command")
if(RINGATTN_HAVE_BLAS)
  set(part libringattn-multihead${PROJECT_VERSION_MAJOR})
  deb(multihead ${part} libs "exact softmax attention: the multi-head layer" ${core})
  deb(multihead_development libringattn-multihead-dev libdevel
    "exact softmax attention: the multi-head layer, for building programs" "${part} ${version}" ${headers})
endif()
set(launcher_openmpi openmpi-bin)
set(launcher_mpich mpich)
foreach(mpi openmpi mpich)
  if(NOT EXISTS ${PROJECT_BINARY_DIR}/../${mpi}/CMakeCache.txt)
    message(FATAL_ERROR "RINGATTN_PACKAGES: no build for ${mpi} beside this one: tools/package.sh makes them all")
  endif()
  set(part libringattn-${mpi}${PROJECT_VERSION_MAJOR})
  deb(${mpi} ${part} libs "exact softmax attention over ranks of ${mpi}" ${core})
  deb(${mpi}_development libringattn-${mpi}-dev libdevel
    "exact softmax attention over ranks of ${mpi}, for building programs" "${part} ${version}" ${headers} lib${mpi}-dev)
  deb(${mpi}_command ringattn-${mpi} utils "exact softmax attention: the command for ${mpi}"
    "ringattn ${version}" ${launcher_${mpi}})
  # Of that build the components with its name: CPack finds them in a list of this name.
  string(TOUPPER OF_${mpi} list)
  set(CPACK_COMPONENTS_${list} ${mpi} ${mpi}_development ${mpi}_command)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${PROJECT_BINARY_DIR}/../${mpi} ringattn ${list} /)
endforeach()
# find_package(ringattn_mpi) looks for the parts of either MPI beside it.
write_basic_package_version_file(ringattn_mpiConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/ringattn_mpiConfig.cmake ${PROJECT_BINARY_DIR}/ringattn_mpiConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ringattn_mpi COMPONENT development)
include(CPack)
