# SPDX-License-Identifier: Apache-2.0
# find_package(ringattn): ringattn::ringattn, and ringattn::static, which needs jansson; the shared library has its own.
include(${CMAKE_CURRENT_LIST_DIR}/ringattnTargets.cmake)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(ringattn_JANSSON QUIET IMPORTED_TARGET jansson)
endif()
if(TARGET PkgConfig::ringattn_JANSSON)
  target_link_libraries(ringattn::static INTERFACE PkgConfig::ringattn_JANSSON)
else()
  target_link_libraries(ringattn::static INTERFACE jansson) # where the linker looks by itself
endif()
