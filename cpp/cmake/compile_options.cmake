# hicache_options: warnings and sanitizer flags of every target of this project. No -march: the
# wheel runs on baseline x86-64 and aarch64, faster paths are picked at run time.
add_library(hicache_options INTERFACE)
target_compile_options(hicache_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>)
if(HICACHE_WERROR)
  target_compile_options(hicache_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(HICACHE_SANITIZE)
  if(NOT HICACHE_SANITIZE MATCHES "^(address|thread|undefined)$")
    message(FATAL_ERROR
      "HICACHE_SANITIZE is '${HICACHE_SANITIZE}'; it must be empty, address, thread or undefined.")
  endif()
  target_compile_options(hicache_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${HICACHE_SANITIZE};-fno-omit-frame-pointer;-g>)
  target_link_options(hicache_options INTERFACE -fsanitize=${HICACHE_SANITIZE})
  if(HICACHE_SANITIZE STREQUAL "undefined")
    target_compile_options(hicache_options INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  endif()
endif()
