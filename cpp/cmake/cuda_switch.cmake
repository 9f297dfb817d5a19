# Decides whether the CUDA backend is built. Sets HICACHE_CUDA_BUILT (ON/OFF) and
# HICACHE_CUDA_REASON. AUTO looks for a working compiler and says what it found; ON without a
# working nvcc is an error, since check_language() alone falls back to a CPU build silently.
include(CheckLanguage)

string(TOUPPER "${HICACHE_CUDA}" _cuda)
if(NOT _cuda MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "HICACHE_CUDA is '${HICACHE_CUDA}'; it must be AUTO, ON or OFF.")
endif()

set(HICACHE_CUDA_BUILT OFF)
if(_cuda STREQUAL "OFF")
  set(HICACHE_CUDA_REASON "switched off")
else()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(HICACHE_CUDA_BUILT ON)
    set(HICACHE_CUDA_REASON "compiler ${CMAKE_CUDA_COMPILER}")
    # Machine code for these and, from the newest, code that a later GPU's driver compiles.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "GPUs to build for")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
  elseif(_cuda STREQUAL "ON")
    message(FATAL_ERROR
      "HICACHE_CUDA=ON, but there is no working CUDA compiler. Put nvcc on PATH or set CUDACXX "
      "(and CUDAHOSTCXX to a host compiler it accepts), or configure with HICACHE_CUDA=OFF.")
  else()
    set(HICACHE_CUDA_REASON "no working CUDA compiler")
  endif()
endif()
