// Runs cases: known bytes, a warm-up, timed rounds beside a contiguous copy, every byte compared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench_case.h"
#include "device_side.h"
#include "options.h"
#include "pools.h"
#include "transfer/transfer_engine.h"

namespace hicache::bench {

// One entry a round, seconds.
struct Timings {
    std::vector<double> contiguous;
    std::vector<double> copy;    // from the call of submit to the end of the copy
    std::vector<double> submit;  // the call alone
};

struct CaseResult {
    BenchCase bench_case;
    int64_t bytes;  // a copy
    Timings timings;
    std::vector<std::string> ways;       // those taken; the CPU has none
    bool compared;                       // false: --verify=off
    std::optional<std::string> mistake;  // what is wrong with the bytes or the counters

    [[nodiscard]] bool failed() const { return mistake.has_value(); }
    [[nodiscard]] bool verified() const { return compared && !mistake; }
};

class CaseRunner {
  public:
    // Throws: std::bad_alloc or std::runtime_error where memory or the device is refused.
    CaseRunner(const Options& options, const std::vector<BenchCase>& cases);

    // Name of the device; empty for the CPU.
    [[nodiscard]] std::string hardware() const { return side_->hardware(); }
    // What works less well than it could on the engine of the last case; empty if nothing does.
    [[nodiscard]] std::string warning() const;

    // Throws: std::runtime_error for a copy that fails or does not end.
    [[nodiscard]] CaseResult run(const BenchCase& bench_case);

  private:
    struct PagePairs {
        std::vector<int64_t> host;
        std::vector<int64_t> device;
    };

    void prepare_engine(const BenchCase& bench_case);
    [[nodiscard]] PagePairs pick_pages(const BenchCase& bench_case) const;
    [[nodiscard]] Timings time_rounds(const BenchCase& bench_case, const PagePairs& pairs);
    void spoil(const BenchCase& bench_case, const PagePairs& pairs);
    [[nodiscard]] std::optional<std::string> find_mistake(const BenchCase& bench_case,
                                                          const PagePairs& pairs);

    const Options options_;
    const PoolFormat format_;
    std::unique_ptr<DeviceSide> side_;
    Pools pools_;
    std::unique_ptr<ContiguousCopy> contiguous_;
    uint64_t seed_;  // of the case

    std::optional<BenchCase> prepared_;
    std::optional<HostLayout> layout_;
    std::unique_ptr<TransferEngine> engine_;
};

}  // namespace hicache::bench
