# SPDX-License-Identifier: Apache-2.0
# find_package(ringattn_mpi): ringattn::mpi and ringattn::mpi_static, names for ringattn::openmpi or ringattn::mpich. Where both
# are installed: the one that RINGATTN_MPI (openmpi or mpich) names, else the one for the MPI that MPI_C_COMPILER or
# find_package(MPI) means.
include(CMakeFindDependencyMacro)

set(ringattn_mpi_names)
foreach(name openmpi mpich)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../ringattn_${name}/ringattn_${name}Config.cmake)
    list(APPEND ringattn_mpi_names ${name})
  endif()
endforeach()
if(RINGATTN_MPI MATCHES "^(openmpi|mpich)$")
  set(ringattn_mpi_names ${RINGATTN_MPI})
endif()

list(LENGTH ringattn_mpi_names ringattn_mpi_count)
if(ringattn_mpi_count GREATER 1)
  find_dependency(MPI COMPONENTS C)
  include(CheckSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
  check_symbol_exists(OPEN_MPI mpi.h RINGATTN_MPI_IS_OPENMPI)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(RINGATTN_MPI_IS_OPENMPI)
    set(ringattn_mpi_names openmpi)
  else()
    set(ringattn_mpi_names mpich)
  endif()
endif()

find_dependency(ringattn_${ringattn_mpi_names} HINTS ${CMAKE_CURRENT_LIST_DIR}/../ringattn_${ringattn_mpi_names})
if(NOT TARGET ringattn::mpi)
  add_library(ringattn::mpi ALIAS ringattn::${ringattn_mpi_names})
  add_library(ringattn::mpi_static ALIAS ringattn::${ringattn_mpi_names}_static)
endif()
