// The digests of one copy. A save takes those of the device pages that it reads and enters them in
// the pool's table; a load takes those of the device pages that it has written and compares.
//
// A backend calls begin() when the copy starts, takes the digests that are wanted() in any way it
// likes, and hands them to settle() once the bytes are in place and before the copy ends, or calls
// fail(). All but wanted() are for one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/digest_table.h"
#include "core/pool_format.h"
#include "transfer/copy_plan.h"
#include "transfer/digest_sample.h"
#include "transfer/direction.h"

namespace hicache {

// Pages that a load wrote and whose bytes are not those that were saved.
struct DigestVerdict {
    int64_t verified = 0;          // pages of which at least one layer was compared
    std::vector<int64_t> corrupt;  // positions in the lists of pages given at submission, ascending
    std::string error;             // empty if there are none
};

class CopyDigests {
  public:
    // verify: kOff for a save that only has to forget. layers: in landing order.
    // device_pages: as submitted.
    CopyDigests(std::shared_ptr<DigestTable> table, const PoolFormat& format, Direction direction,
                Verify verify, int64_t sequence, std::vector<int> layers,
                std::span<const int64_t> device_pages);

    // Whether the backend has to take digests at all.
    [[nodiscard]] bool taken() const { return verify_ != Verify::kOff; }
    [[nodiscard]] DigestSample sample() const { return sample_; }
    // Whether the digest of that layer of the page is of use. Requires: taken().
    [[nodiscard]] bool wanted(int64_t host_page, int layer) const;

    // The pages of the plan are going to be written, or read.
    void begin(const CopyPlan& plan) { forget(plan); }
    // The copy has failed. An earlier save of the same pages may have ended since it began.
    void fail(const CopyPlan& plan) { forget(plan); }
    // found: [position in layers][page of the plan]; looked at where wanted().
    void settle(const CopyPlan& plan, std::span<const uint64_t> found);

    [[nodiscard]] const DigestVerdict& verdict() const { return verdict_; }

  private:
    void forget(const CopyPlan& plan);
    void enter(const CopyPlan& plan, std::span<const uint64_t> found);
    void compare(const CopyPlan& plan, std::span<const uint64_t> found);
    [[nodiscard]] bool stored(int layer) const { return layer_bytes_[layer] > 0; }

    const std::shared_ptr<DigestTable> table_;
    const Direction direction_;
    const Verify verify_;
    const DigestSample sample_;
    const std::vector<int> layers_;
    std::vector<int64_t> layer_bytes_;   // by layer
    std::vector<int64_t> device_pages_;  // of loads that compare
    DigestVerdict verdict_;
};

}  // namespace hicache
