# --filter picks names as --gtest_filter does.
include("${CMAKE_CURRENT_LIST_DIR}/run_bench.cmake")

function(expect_names filter)
  run_bench(--list --pages=8,16 --runs=1 "--filter=${filter}")
  expect("exit_code EQUAL 0")
  string(REGEX REPLACE "\n$" "" names "${output}")
  string(REPLACE "\n" ";" names "${names}")
  list(TRANSFORM names REPLACE "auto/run1/pages" "")
  set(wanted ${ARGN})
  expect("names STREQUAL wanted")
endfunction()

expect_names(cpu/page_first/auto/run1/pages8/h2d cpu/page_first/8/h2d)
expect_names(*/layer_first/*/d2h cpu/layer_first/8/d2h cpu/layer_first/16/d2h)
expect_names(*/pages?/h2d
  cpu/page_first/8/h2d cpu/layer_first/8/h2d cpu/page_first_direct/8/h2d)
expect_names(*first/*s8/h2d:*s16/d?h-*_direct*:cpu/layer*
  cpu/page_first/8/h2d cpu/page_first/16/d2h)
expect_names(-*/page_first*:*16* cpu/layer_first/8/h2d cpu/layer_first/8/d2h)
expect_names(*p*a*g*e*s*1*6*/h2d-**direct**
  cpu/page_first/16/h2d cpu/layer_first/16/h2d)

foreach(part page_first cpu/ /h2d h2d "")  # a pattern is of the whole name
  run_bench(--list "--filter=${part}")
  expect("exit_code EQUAL 2")
  expect("errors MATCHES \"No case is left: --filter=${part} \"")
endforeach()
