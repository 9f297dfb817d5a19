#include "pools.h"

#include <algorithm>
#include <mutex>

#include "core/errors.h"

namespace hicache::bench {
namespace {

constexpr int64_t kStagedBytes = int64_t{4} << 20;  // at least a page of any array
constexpr std::byte kSpoil{0x10};

int cores() {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Keeps the first difference that any thread reports.
class FirstFound {
  public:
    void report(std::string text) {
        std::lock_guard lock(mutex_);
        if (!text_) text_ = std::move(text);
    }
    [[nodiscard]] std::optional<std::string> text() const { return text_; }

  private:
    std::mutex mutex_;
    std::optional<std::string> text_;
};

}  // namespace

Pools::Pools(const PoolFormat& format, int64_t pages, DeviceSide& side)
    : format_(format),
      pages_(pages),
      side_(side),
      host_(HostLayout(format, "page_first", pages).total_bytes()),
      team_(cores()) {
    for (int buffer = 0; buffer < format.num_buffers(); ++buffer) {
        const int64_t bytes = format.buffers()[buffer].page_bytes;
        staged_bytes_ = std::max({staged_bytes_, bytes, kStagedBytes});
        for (const int layer : format.buffers()[buffer].layers) {
            arrays_.push_back({buffer, layer, bytes, side.allocate(bytes * pages)});
            buffers_.push_back({arrays_.back().address, bytes, 1, bytes, bytes});
        }
    }
    for (int thread = 0; thread < team_.size(); ++thread)
        staging_.push_back(side.staging(staged_bytes_));
}

void Pools::fill(Tier tier, const HostLayout& layout, uint64_t seed) {
    const auto arrays = static_cast<int64_t>(arrays_.size());
    if (tier == Tier::kHost) {
        team_.for_each(pages_, [&](int, int64_t page) {
            for (int64_t array = 0; array < arrays; ++array)
                PageContent{seed, page}.fill(array, host_page(layout, array, page));
        });
        return;
    }
    const auto blocks = device_blocks();
    team_.for_each(static_cast<int64_t>(blocks.size()), [&](int thread, int64_t item) {
        const Block& block = blocks[item];
        const Array& array = arrays_[block.array];
        std::byte* at = staging_[thread].get();
        for (int64_t page = 0; page < block.pages; ++page) {
            PageContent{seed, block.first_page + page}.fill(
                block.array, {at + page * array.page_bytes, static_cast<size_t>(array.page_bytes)});
        }
        side_.write(array.address + block.first_page * array.page_bytes, at,
                    block.pages * array.page_bytes);
    });
}

std::optional<std::string> Pools::difference(Tier tier, const HostLayout& layout,
                                             std::span<const PageContent> expected) {
    FirstFound found;
    const auto compare = [&](int64_t array, int64_t page, std::span<const std::byte> bytes) {
        const auto offset = expected[page].first_difference(array, bytes);
        if (offset) {
            found.report(described(tier, array, expected[page], page, *offset, bytes[*offset]));
        }
    };
    if (tier == Tier::kHost) {
        team_.for_each(pages_, [&](int, int64_t page) {
            for (int64_t array = 0; array < static_cast<int64_t>(arrays_.size()); ++array)
                compare(array, page, host_page(layout, array, page));
        });
        return found.text();
    }
    const auto blocks = device_blocks();
    team_.for_each(static_cast<int64_t>(blocks.size()), [&](int thread, int64_t item) {
        const Block& block = blocks[item];
        const Array& array = arrays_[block.array];
        std::byte* at = staging_[thread].get();
        side_.read(at, array.address + block.first_page * array.page_bytes,
                   block.pages * array.page_bytes);
        for (int64_t page = 0; page < block.pages; ++page) {
            compare(block.array, block.first_page + page,
                    {at + page * array.page_bytes, static_cast<size_t>(array.page_bytes)});
        }
    });
    return found.text();
}

void Pools::spoil(Tier tier, const HostLayout& layout, int64_t page) {
    const auto last = static_cast<int64_t>(arrays_.size()) - 1;
    const int64_t offset = arrays_[last].page_bytes / 2;
    if (tier == Tier::kHost) {
        host_page(layout, last, page)[offset] ^= kSpoil;
        return;
    }
    const uint64_t address = arrays_[last].address + page * arrays_[last].page_bytes + offset;
    std::byte byte{};
    side_.read(&byte, address, 1);
    byte ^= kSpoil;
    side_.write(address, &byte, 1);
}

std::vector<Pools::Block> Pools::device_blocks() const {
    std::vector<Block> blocks;
    for (size_t array = 0; array < arrays_.size(); ++array) {
        const int64_t most = staged_bytes_ / arrays_[array].page_bytes;
        for (int64_t page = 0; page < pages_; page += most) {
            blocks.push_back({static_cast<int64_t>(array), page, std::min(most, pages_ - page)});
        }
    }
    return blocks;
}

std::span<std::byte> Pools::host_page(const HostLayout& layout, int64_t array, int64_t page) const {
    const Array& at = arrays_[array];
    return {host_.data() + layout.offset(at.buffer, at.layer, page),
            static_cast<size_t>(at.page_bytes)};
}

std::string Pools::described(Tier tier, int64_t array, const PageContent& expected, int64_t page,
                             int64_t offset, std::byte found) const {
    const Array& at = arrays_[array];
    return message(tier == Tier::kHost ? "host" : "device", " page ", page, ", layer ", at.layer,
                   ", ", format_.buffers()[at.buffer].name, ": byte ", offset, " is ",
                   std::to_integer<int>(found), ", expected ",
                   std::to_integer<int>(expected.at(array, offset)), " (as page ", expected.page,
                   " was filled with seed ", expected.seed, ")");
}

}  // namespace hicache::bench
