#include "transfer/copy_digests.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

std::string hex(uint64_t digest) {
    std::ostringstream out;
    out << "0x" << std::hex << std::setw(16) << std::setfill('0') << digest;
    return out.str();
}

struct Mismatch {
    PageRun page;
    int layer;
    uint64_t known;
    uint64_t found;
};

// The page that came first at submission is named, in its first wrong layer.
std::string text_of(const Mismatch& wrong, size_t pages, int64_t of) {
    return message(
        "host page ", wrong.page.host_page, ", layer ", wrong.layer,
        ": what arrived on device page ", wrong.page.device_page, " has digest ", hex(wrong.found),
        ", what was saved had ", hex(wrong.known), " (", pages, " of ", of,
        " pages of this copy are wrong). The copy failed: compute these pages "
        "anew; if it happens again, have the machine's memory and the GPU's link tested");
}

}  // namespace

CopyDigests::CopyDigests(std::shared_ptr<DigestTable> table, const PoolFormat& format,
                         Direction direction, Verify verify, int64_t sequence,
                         std::vector<int> layers, std::span<const int64_t> device_pages)
    : table_(std::move(table)),
      direction_(direction),
      verify_(verify),
      sample_{static_cast<uint64_t>(sequence),
              verify == Verify::kAll || direction == Direction::kDeviceToHost},
      layers_(std::move(layers)) {
    for (int layer = 0; layer < format.num_layers(); ++layer)
        layer_bytes_.push_back(format.layer_bytes(layer));
    if (taken() && direction == Direction::kHostToDevice)
        device_pages_.assign(device_pages.begin(), device_pages.end());
}

bool CopyDigests::wanted(int64_t host_page, int layer) const {
    if (!stored(layer)) return false;
    if (direction_ == Direction::kDeviceToHost) return true;
    return sample_.has(host_page, layer) && table_->get(host_page, layer) != 0;
}

void CopyDigests::forget(const CopyPlan& plan) {
    if (direction_ == Direction::kHostToDevice) return;
    for (const PageRun& run : plan.runs()) {
        for (int64_t page = run.host_page; page < run.host_page + run.count; ++page) {
            for (const int layer : layers_)
                table_->forget(page, layer);
        }
    }
}

void CopyDigests::settle(const CopyPlan& plan, std::span<const uint64_t> found) {
    if (!taken()) return;
    if (direction_ == Direction::kDeviceToHost) {
        enter(plan, found);
    } else {
        compare(plan, found);
    }
}

void CopyDigests::enter(const CopyPlan& plan, std::span<const uint64_t> found) {
    const auto pages = static_cast<size_t>(plan.num_pages());
    size_t i = 0;
    for (const PageRun& run : plan.runs()) {
        for (int64_t page = run.host_page; page < run.host_page + run.count; ++page, ++i) {
            for (size_t position = 0; position < layers_.size(); ++position) {
                if (stored(layers_[position]))
                    table_->set(page, layers_[position], found[position * pages + i]);
            }
        }
    }
}

void CopyDigests::compare(const CopyPlan& plan, std::span<const uint64_t> found) {
    const auto pages = static_cast<size_t>(plan.num_pages());
    std::unordered_map<int64_t, Mismatch> wrong;  // by device page, its first wrong layer
    size_t i = 0;
    plan.visit_pages(0, plan.num_pages(), [&](const PageRun& run) {
        for (int64_t k = 0; k < run.count; ++k, ++i) {
            const PageRun page{run.host_page + k, run.device_page + k, 1};
            bool compared = false;
            for (size_t position = 0; position < layers_.size(); ++position) {
                const int layer = layers_[position];
                if (!wanted(page.host_page, layer)) continue;
                const uint64_t known = table_->get(page.host_page, layer);
                const uint64_t here = found[position * pages + i];
                if (here == 0) continue;  // became known while the copy ran: another engine's save
                compared = true;
                if (here != known) wrong.try_emplace(page.device_page, page, layer, known, here);
            }
            verdict_.verified += compared;
        }
    });
    if (wrong.empty()) return;
    for (size_t at = 0; at < device_pages_.size(); ++at) {
        if (wrong.contains(device_pages_[at])) verdict_.corrupt.push_back(static_cast<int64_t>(at));
    }
    const auto first = static_cast<size_t>(verdict_.corrupt.front());
    verdict_.error = text_of(wrong.at(device_pages_[first]), wrong.size(), plan.num_pages());
}

}  // namespace hicache
