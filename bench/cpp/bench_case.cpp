#include "bench_case.h"

#include "core/errors.h"
#include "name_filter.h"

namespace hicache::bench {
namespace {

// The ways that make a difference: the CPU has one, and page_first_direct is page_first by copy
// engine.
std::vector<std::optional<Way>> ways_of(const std::string& device, const std::string& layout) {
    std::vector<std::optional<Way>> ways{std::nullopt};
    if (device == "cpu" || layout == "page_first_direct") return ways;
    ways.insert(ways.end(), kAllWays.begin(), kAllWays.end());
    return ways;
}

}  // namespace

std::string BenchCase::id() const {
    return message(device, "/", layout, "/", way ? hicache::name(*way) : "auto", "/run", run,
                   "/pages", pages, "/", name(direction));
}

std::vector<BenchCase> chosen_cases(const Options& options) {
    const NameFilter filter(options.filter);
    std::vector<BenchCase> cases;
    for (const std::string layout : {"page_first", "layer_first", "page_first_direct"}) {
        for (const auto& way : ways_of(options.device, layout)) {
            for (const int64_t run : options.runs) {
                for (const int64_t pages : options.pages) {
                    if (pages % run != 0) continue;
                    for (const Direction direction : kDirections) {
                        BenchCase each{options.device, layout, way, run, pages, direction};
                        if (filter.matches(each.id())) cases.push_back(std::move(each));
                    }
                }
            }
        }
    }
    return cases;
}

}  // namespace hicache::bench
