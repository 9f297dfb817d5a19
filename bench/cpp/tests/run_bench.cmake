# run_bench(<arguments>): runs the binary BENCH; sets exit_code, output and errors.
cmake_minimum_required(VERSION 3.26)

# Small pools that still have several blocks of pages, layers and runs.
set(small --layers=3 --pool=24 --rounds=2)

macro(run_bench)
  execute_process(COMMAND "${BENCH}" ${ARGN}
    RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
endmacro()

# expect(<condition> <message>): stops with the message and what the binary said.
function(expect condition)
  cmake_language(EVAL CODE "if(${condition})\nset(holds TRUE)\nendif()")
  if(NOT holds)
    message(FATAL_ERROR
      "expected ${condition}\nexit code: ${exit_code}\nstdout:\n${output}\nstderr:\n${errors}")
  endif()
endfunction()
