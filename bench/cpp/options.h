// The command line of the bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/pool_format.h"

namespace hicache::bench {

// Where a self-test spoils one byte between copy and comparison.
enum class Damage { kNone, kCopied, kGuard, kSource };

struct Options {
    std::string device;          // "cpu" or "cuda"
    std::vector<int64_t> pages;  // a copy
    std::vector<int64_t> runs;   // neighbouring pages
    int layers;
    std::string kv;
    int64_t pool;  // pages of each pool
    int rounds;
    int blocks;   // of the kernel, 0 = the backend chooses
    int workers;  // host threads a direction; on the CPU also those of the contiguous copy
    std::string filter;
    std::string json;  // empty: no report
    bool verify;
    bool list;
    uint64_t seed;
    Damage damage;
    std::string command;  // as given, without the report's path
};

// nullopt: the help was asked for and is printed.
// Throws: std::invalid_argument for bad usage, with what would be right.
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv);

// DeepSeek-V3.2's pages: latent rows and indexer keys of 64 tokens, in every layer.
[[nodiscard]] PoolFormat format_of(const Options& options);

}  // namespace hicache::bench
