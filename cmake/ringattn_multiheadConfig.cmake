# SPDX-License-Identifier: Apache-2.0
# find_package(ringattn_multihead): ringattn::multihead, and ringattn with it.
include(CMakeFindDependencyMacro)
find_dependency(ringattn HINTS ${CMAKE_CURRENT_LIST_DIR}/../ringattn)
include(${CMAKE_CURRENT_LIST_DIR}/ringattn_multiheadTargets.cmake)
