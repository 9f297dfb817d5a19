// hicache_bench: the C++ core's copies, timed and compared byte by byte, without Python.

#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "bench_case.h"
#include "case_runner.h"
#include "core/errors.h"
#include "options.h"
#include "report.h"

namespace hicache::bench {
namespace {

constexpr int kFine = 0;
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

// Before anything is measured; leaves a file that is there as it is.
void require_writable(const std::string& path) {
    if (!std::ofstream(path, std::ios::app)) {
        bad_argument("--json=", path, " cannot be written; name a file in a folder that exists.");
    }
}

std::vector<BenchCase> required_cases(const Options& options) {
    auto cases = chosen_cases(options);
    if (cases.empty()) {
        bad_argument("No case is left: --filter=", options.filter,
                     " matches none, or no number of --pages is a multiple of one of --runs. "
                     "--list without --filter shows the names.");
    }
    return cases;
}

int run_cases(const Options& options, const std::vector<BenchCase>& cases) {
    CaseRunner runner(options, cases);
    std::vector<CaseResult> results;
    int failures = 0;
    std::string warned;
    print_header();
    for (const BenchCase& each : cases) {
        results.push_back(runner.run(each));
        print_row(results.back());
        if (results.back().failed()) {
            ++failures;
            std::cerr << each.id() << ": " << *results.back().mistake << std::endl;
        }
        if (runner.warning() != warned) {
            warned = runner.warning();
            std::cerr << "warning: " << warned << std::endl;
        }
    }
    if (!options.json.empty()) write_report(options, runner.hardware(), results);
    if (failures > 0) {
        std::cerr << failures << " of " << cases.size() << " cases failed; --seed=" << options.seed
                  << " with the same options repeats them." << std::endl;
    }
    return failures == 0 ? kFine : kFailed;
}

int run(int argc, const char* const* argv) {
    std::optional<Options> options;
    std::vector<BenchCase> cases;
    try {
        options = parse_options(argc, argv);
        if (!options) return kFine;
        cases = required_cases(*options);
        if (options->list) {
            for (const BenchCase& each : cases)
                std::cout << each.id() << "\n";
            return kFine;
        }
        if (!options->json.empty()) require_writable(options->json);
    } catch (const std::invalid_argument& error) {
        std::cerr << "hicache_bench: " << error.what() << " --help lists the options." << std::endl;
        return kBadUsage;
    }
    return run_cases(*options, cases);
}

}  // namespace
}  // namespace hicache::bench

int main(int argc, char** argv) {
    try {
        return hicache::bench::run(argc, argv);
    } catch (const std::bad_alloc& error) {
        std::cerr << "hicache_bench: " << error.what()
                  << " --pool, --pages and --layers make the pools smaller." << std::endl;
    } catch (const std::exception& error) {
        std::cerr << "hicache_bench: " << error.what() << std::endl;
    }
    return hicache::bench::kFailed;
}
