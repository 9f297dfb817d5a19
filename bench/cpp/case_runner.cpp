#include "case_runner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <utility>

#include "core/errors.h"

namespace hicache::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 120;  // a copy that takes longer is stuck

double seconds_since(Clock::time_point started) {
    return std::chrono::duration<double>(Clock::now() - started).count();
}

int64_t most_pages(const std::vector<BenchCase>& cases) {
    int64_t most = 0;
    for (const BenchCase& each : cases)
        most = std::max(most, each.pages);
    return most;
}

std::unique_ptr<DeviceSide> create_side(const Options& options) {
    return options.device == "cpu" ? create_cpu_side(options.workers) : create_cuda_side();
}

Tier source_of(Direction direction) {
    return direction == Direction::kHostToDevice ? Tier::kHost : Tier::kDevice;
}
Tier destination_of(Direction direction) {
    return source_of(opposite(direction));
}

// `count` pages of a pool in shuffled runs of `run` neighbours.
std::vector<int64_t> pages_in_runs(int64_t pool, int64_t count, int64_t run,
                                   std::mt19937_64& random) {
    std::vector<int64_t> runs(static_cast<size_t>(pool / run));
    std::iota(runs.begin(), runs.end(), 0);
    std::shuffle(runs.begin(), runs.end(), random);
    std::vector<int64_t> pages;
    for (int64_t i = 0; i < count; ++i)
        pages.push_back(runs[i / run] * run + i % run);
    return pages;
}

// A page of the pool that is not among `named`; nullopt if all are.
std::optional<int64_t> page_besides(std::vector<int64_t> named, int64_t pool) {
    std::sort(named.begin(), named.end());
    int64_t page = 0;
    while (page < static_cast<int64_t>(named.size()) && named[page] == page)
        ++page;
    if (page == pool) return std::nullopt;
    return page;
}

std::vector<std::string> ways_taken(const TransferTotals& before, const TransferTotals& after) {
    std::vector<std::string> ways;
    for (const Way way : kAllWays) {
        const auto at = static_cast<size_t>(way);
        if (after.by_way[at] > before.by_way[at]) ways.emplace_back(name(way));
    }
    return ways;
}

// The counters of the rounds and the warm-up; nullopt if they are what was asked for.
std::optional<std::string> wrong_counters(const TransferTotals& before, const TransferTotals& after,
                                          int64_t copies, int64_t bytes) {
    const int64_t counted = after.copies - before.copies;
    const int64_t moved = after.bytes - before.bytes;
    if (counted == copies && moved == copies * bytes) return std::nullopt;
    return message("the engine counted ", counted, " copies of ", moved, " bytes in all, expected ",
                   copies, " and ", copies * bytes);
}

}  // namespace

CaseRunner::CaseRunner(const Options& options, const std::vector<BenchCase>& cases)
    : options_(options),
      format_(format_of(options)),
      side_(create_side(options)),
      pools_(format_, options.pool, *side_),
      contiguous_(side_->contiguous_copy(most_pages(cases) * format_.page_bytes())),
      seed_(options.seed) {}

std::string CaseRunner::warning() const {
    return engine_ ? engine_->warning() : std::string();
}

CaseResult CaseRunner::run(const BenchCase& bench_case) {
    prepare_engine(bench_case);
    ++seed_;
    const Direction direction = bench_case.direction;
    const PagePairs pairs = pick_pages(bench_case);
    const int64_t bytes = bench_case.pages * format_.page_bytes();
    if (options_.verify) {
        pools_.fill(Tier::kHost, *layout_, seed_);
        pools_.fill(Tier::kDevice, *layout_, ~seed_);
    }
    const TransferTotals before = engine_->totals(direction);
    Timings timings = time_rounds(bench_case, pairs);
    const TransferTotals after = engine_->totals(direction);
    auto mistake = wrong_counters(before, after, options_.rounds + 1, bytes);
    if (options_.verify) {
        spoil(bench_case, pairs);
        if (!mistake) mistake = find_mistake(bench_case, pairs);
    }
    engine_->check();
    return {bench_case,      bytes,  std::move(timings), ways_taken(before, after),
            options_.verify, mistake};
}

void CaseRunner::prepare_engine(const BenchCase& bench_case) {
    if (prepared_ && prepared_->same_engine(bench_case)) return;
    engine_.reset();  // unpins the host pool before the next engine pins it
    layout_.emplace(format_, bench_case.layout, options_.pool);
    CopyOptions copy_options;
    copy_options.workers = options_.workers;
    copy_options.way = bench_case.way;
    copy_options.kernel_blocks = options_.blocks;
    copy_options.link_curve = side_->link_curve();
    engine_ = std::make_unique<TransferEngine>(format_, options_.device, options_.pool,
                                               pools_.device_buffers(), pools_.host(), *layout_,
                                               copy_options);
    prepared_ = bench_case;
}

CaseRunner::PagePairs CaseRunner::pick_pages(const BenchCase& bench_case) const {
    std::mt19937_64 random(seed_);
    PagePairs pairs;
    pairs.host = pages_in_runs(options_.pool, bench_case.pages, bench_case.run, random);
    pairs.device = pages_in_runs(options_.pool, bench_case.pages, bench_case.run, random);
    return pairs;
}

Timings CaseRunner::time_rounds(const BenchCase& bench_case, const PagePairs& pairs) {
    const int64_t bytes = bench_case.pages * format_.page_bytes();
    Timings timings;
    for (int round = 0; round <= options_.rounds; ++round) {
        const double contiguous = contiguous_->seconds(bench_case.direction, bytes);
        const auto started = Clock::now();
        const Ticket ticket =
            engine_->submit(bench_case.direction, pairs.host, pairs.device, std::nullopt, {});
        const double submit = seconds_since(started);
        const bool ended = ticket.wait(kMostSeconds);
        const double copy = seconds_since(started);
        if (!ended) bad_state(bench_case.id(), ": a copy runs for more than ", copy, " s.");
        if (const auto error = ticket.error()) bad_state(bench_case.id(), ": ", *error);
        if (round == 0) continue;  // warms up
        timings.contiguous.push_back(contiguous);
        timings.copy.push_back(copy);
        timings.submit.push_back(submit);
    }
    return timings;
}

void CaseRunner::spoil(const BenchCase& bench_case, const PagePairs& pairs) {
    const bool load = bench_case.direction == Direction::kHostToDevice;
    const auto& sources = load ? pairs.host : pairs.device;
    const auto& destinations = load ? pairs.device : pairs.host;
    if (options_.damage == Damage::kCopied) {
        pools_.spoil(destination_of(bench_case.direction), *layout_, destinations.back());
    } else if (options_.damage == Damage::kSource) {
        pools_.spoil(source_of(bench_case.direction), *layout_, sources.back());
    } else if (options_.damage == Damage::kGuard) {
        const auto guard = page_besides(destinations, options_.pool);
        if (!guard) bad_state("Every page of the pool is copied: there is no guard to spoil.");
        pools_.spoil(destination_of(bench_case.direction), *layout_, *guard);
    }
}

// The source has to be as it was filled, a destination page as its source, all others as they were.
std::optional<std::string> CaseRunner::find_mistake(const BenchCase& bench_case,
                                                    const PagePairs& pairs) {
    std::vector<PageContent> host, device;
    for (int64_t page = 0; page < options_.pool; ++page) {
        host.push_back({seed_, page});
        device.push_back({~seed_, page});
    }
    for (size_t i = 0; i < pairs.host.size(); ++i) {
        if (bench_case.direction == Direction::kHostToDevice) {
            device[pairs.device[i]] = host[pairs.host[i]];
        } else {
            host[pairs.host[i]] = device[pairs.device[i]];
        }
    }
    if (auto wrong = pools_.difference(Tier::kHost, *layout_, host)) return wrong;
    return pools_.difference(Tier::kDevice, *layout_, device);
}

}  // namespace hicache::bench
