# The CMake package of scatterheap.
#
#   find_package(scatterheap REQUIRED)
#   target_link_libraries(mine PRIVATE scatterheap::device)
#
#   scatterheap::scatterheap  what the host calls (scatterheap.h): libscatterheap
#   scatterheap::device       that, and what kernels call. It is compiled for CMAKE_CUDA_ARCHITECTURES, and makes the
#                             target's device code relocatable. There only where CUDA is among the project's languages.
#
# SCATTERHEAP_REGISTERS is how many registers the device functions may have, 64 if nothing is said: a kernel has as many
# as the function with the most of those that it is linked with.

get_filename_component(_scatterheap_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET scatterheap::scatterheap)
  add_library(scatterheap::scatterheap SHARED IMPORTED GLOBAL)
  set_target_properties(scatterheap::scatterheap PROPERTIES
    IMPORTED_LOCATION "${_scatterheap_prefix}/lib/libscatterheap.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_scatterheap_prefix}/include")
endif()

# What nvcc is to compile for, as flags; and whether there is a GPU older than Ampere among it.
function(_scatterheap_architectures flags is_old)
  set(architectures ${CMAKE_CUDA_ARCHITECTURES})
  if(architectures STREQUAL "native")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
  elseif(architectures STREQUAL "all")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_ALL})
  elseif(architectures STREQUAL "all-major")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_ALL_MAJOR})
  endif()
  set(found)
  set(old FALSE)
  foreach(architecture IN LISTS architectures)
    # Device code is linked, which only works for machine code: there is none in `90-virtual`.
    if(NOT architecture MATCHES "^([0-9]+)[a-z]?(-real)?$")
      continue()
    endif()
    if(CMAKE_MATCH_1 LESS 75)
      message(FATAL_ERROR "scatterheap was asked for compute capability ${architecture} (CMAKE_CUDA_ARCHITECTURES), "
        "but needs 75 or newer: leave it out")
    elseif(CMAKE_MATCH_1 LESS 80)
      set(old TRUE)
    endif()
    string(REPLACE "-real" "" architecture "${architecture}")
    list(APPEND found "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "scatterheap found no real architecture in CMAKE_CUDA_ARCHITECTURES "
      "(`${CMAKE_CUDA_ARCHITECTURES}`): name one such as 90")
  endif()
  set(${flags} ${found} PARENT_SCOPE)
  set(${is_old} ${old} PARENT_SCOPE)
endfunction()

if(CMAKE_CUDA_COMPILER AND NOT TARGET scatterheap::device)
  _scatterheap_architectures(_scatterheap_flags _scatterheap_is_old)
  if(_scatterheap_is_old)
    set(_scatterheap_ptx "${_scatterheap_prefix}/share/scatterheap/scatterheap-device.sm_75.ptx")
  else()
    set(_scatterheap_ptx "${_scatterheap_prefix}/share/scatterheap/scatterheap-device.sm_80.ptx")
  endif()
  set(_scatterheap_object "${CMAKE_CURRENT_BINARY_DIR}/scatterheap-device.o")
  if(NOT DEFINED SCATTERHEAP_REGISTERS)
    set(SCATTERHEAP_REGISTERS 64)
  endif()
  # nvcc would use the compiler of the search path, which may be one that it refuses.
  set(_scatterheap_host_compiler)
  if(CMAKE_CUDA_HOST_COMPILER)
    set(_scatterheap_host_compiler -ccbin "${CMAKE_CUDA_HOST_COMPILER}")
  endif()
  add_custom_command(
    OUTPUT "${_scatterheap_object}"
    COMMAND "${CMAKE_CUDA_COMPILER}" ${_scatterheap_host_compiler} ${_scatterheap_flags} -maxrregcount=${SCATTERHEAP_REGISTERS} -Xcompiler=-fPIC -dc "${_scatterheap_ptx}"
      -o "${_scatterheap_object}"
    DEPENDS "${_scatterheap_ptx}"
    COMMENT "Compiling the device functions of scatterheap"
    VERBATIM)
  set_source_files_properties("${_scatterheap_object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(scatterheap_device STATIC "${_scatterheap_prefix}/share/scatterheap/scatterheap.cu"
    "${_scatterheap_object}")
  set_target_properties(scatterheap_device PROPERTIES
    CUDA_SEPARABLE_COMPILATION ON
    CUDA_RESOLVE_DEVICE_SYMBOLS OFF
    POSITION_INDEPENDENT_CODE ON)
  target_compile_features(scatterheap_device PUBLIC cuda_std_17)
  target_compile_options(scatterheap_device INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-rdc=true>")
  target_link_libraries(scatterheap_device PUBLIC scatterheap::scatterheap)
  add_library(scatterheap::device ALIAS scatterheap_device)
endif()
