#include "report.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "environment.h"

namespace hicache::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNameWidth = 48;

// Requires: not empty.
double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> shares_of_peak(const Timings& timings) {
    std::vector<double> shares;
    for (size_t i = 0; i < timings.copy.size(); ++i)
        shares.push_back(timings.contiguous[i] / timings.copy[i]);
    return shares;
}

double gbps(int64_t bytes, double seconds) {
    return static_cast<double>(bytes) / seconds / 1e9;
}

std::string joined(const std::vector<std::string>& names) {
    std::string all;
    for (const auto& each : names)
        all.append(all.empty() ? "" : "+").append(each);
    return all.empty() ? "-" : all;
}

Json case_json(const CaseResult& result) {
    const BenchCase& bench_case = result.bench_case;
    const auto shares = shares_of_peak(result.timings);
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    const double seconds = median(result.timings.copy);
    Json json{
        {"id", bench_case.id()},
        {"direction", name(bench_case.direction)},
        {"layout", bench_case.layout},
        {"way", result.ways},
        {"run", bench_case.run},
        {"pages", bench_case.pages},
        {"bytes", result.bytes},
        {"seconds_median", seconds},
        {"gbps", gbps(result.bytes, seconds)},
        {"peak_gbps", gbps(result.bytes, median(result.timings.contiguous))},
        {"share_of_peak", median(shares)},
        {"share_spread", {*least, *most}},
        {"submit_us_median", 1e6 * median(result.timings.submit)},
        {"verified", result.verified()},
    };
    if (result.mistake) json["mistake"] = *result.mistake;
    return json;
}

// Of the largest copies in that direction, all of their rounds; null if there are none.
Json peak_gbps(const std::vector<CaseResult>& results, Direction direction) {
    int64_t bytes = 0;
    std::vector<double> seconds;
    for (const CaseResult& result : results) {
        if (result.bench_case.direction != direction || result.bytes < bytes) continue;
        if (result.bytes > bytes) seconds.clear();
        bytes = result.bytes;
        const auto& more = result.timings.contiguous;
        seconds.insert(seconds.end(), more.begin(), more.end());
    }
    if (seconds.empty()) return nullptr;
    return gbps(bytes, median(seconds));
}

Json environment_json(const std::string& hardware) {
    Json json{{"cpu", cpu_name()},
              {"cores", core_count()},
              {"compiler", compiler_name()},
              {"version", HICACHE_VERSION},
              {"build_type", HICACHE_BENCH_BUILD_TYPE}};
    if (!hardware.empty()) json["gpu"] = hardware;
    return json;
}

}  // namespace

void print_header() {
    std::cout << std::left << std::setw(kNameWidth) << "case" << std::setw(10) << "way"
              << std::right << std::setw(9) << "GB/s" << std::setw(9) << "of peak" << std::setw(11)
              << "submit us"
              << "  verified" << std::endl;
}

void print_row(const CaseResult& result) {
    const double seconds = median(result.timings.copy);
    std::cout << std::left << std::setw(kNameWidth) << result.bench_case.id() << std::setw(10)
              << joined(result.ways) << std::right << std::fixed << std::setw(9)
              << std::setprecision(2) << gbps(result.bytes, seconds) << std::setw(9)
              << std::setprecision(3) << median(shares_of_peak(result.timings)) << std::setw(11)
              << std::setprecision(1) << 1e6 * median(result.timings.submit) << "  "
              << (result.verified() ? "yes"
                  : result.failed() ? "NO"
                                    : "-")
              << std::endl;
}

void write_report(const Options& options, const std::string& hardware,
                  const std::vector<CaseResult>& results) {
    Json cases = Json::array();
    for (const CaseResult& result : results)
        cases.push_back(case_json(result));
    const Json report{{"environment", environment_json(hardware)},
                      {"command", options.command},
                      {"device", options.device},
                      {"kv", options.kv},
                      {"layers", options.layers},
                      {"pool", options.pool},
                      {"rounds", options.rounds},
                      {"blocks", options.blocks},
                      {"workers", options.workers},
                      {"verify", options.verify},
                      {"seed", options.seed},
                      {"peak",
                       {{"h2d_gbps", peak_gbps(results, Direction::kHostToDevice)},
                        {"d2h_gbps", peak_gbps(results, Direction::kDeviceToHost)}}},
                      {"cases", cases}};
    std::ofstream file(options.json);
    file << report.dump(2) << "\n";
    file.close();
    if (!file) bad_state("The report could not be written to ", options.json, ".");
}

}  // namespace hicache::bench
