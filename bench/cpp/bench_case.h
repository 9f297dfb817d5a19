// The cases and their names: device/layout/way/run length/pages/direction, such as
// cpu/page_first/auto/run1/pages512/h2d.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "transfer/copy_options.h"
#include "transfer/direction.h"

namespace hicache::bench {

struct BenchCase {
    std::string device;
    std::string layout;
    std::optional<Way> way;  // nullopt: auto
    int64_t run;             // neighbouring pages
    int64_t pages;
    Direction direction;

    [[nodiscard]] std::string id() const;
    // Whether the same engine serves both.
    [[nodiscard]] bool same_engine(const BenchCase& other) const {
        return layout == other.layout && way == other.way;
    }
};

// The cases that the filter leaves; those of one engine stand together. A copy is whole runs: where
// its pages are no multiple of the run length there is no case.
[[nodiscard]] std::vector<BenchCase> chosen_cases(const Options& options);

}  // namespace hicache::bench
