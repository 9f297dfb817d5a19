// What the bench tells: a table to stdout as cases end, and a JSON report.
#pragma once

#include <string>
#include <vector>

#include "case_runner.h"
#include "options.h"

namespace hicache::bench {

void print_header();
void print_row(const CaseResult& result);

// {environment, command, peak, cases, ...}, see docs/benchmarks.md.
// hardware: name of the device, empty for the CPU. Throws: std::runtime_error if it cannot be
// written.
void write_report(const Options& options, const std::string& hardware,
                  const std::vector<CaseResult>& results);

}  // namespace hicache::bench
