// A device pool and a host pool of as many pages, with bytes that are known page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/host_layout.h"
#include "core/host_memory.h"
#include "device_side.h"
#include "page_content.h"
#include "thread_team.h"
#include "transfer/device_buffer.h"

namespace hicache::bench {

enum class Tier { kHost, kDevice };

class Pools {
  public:
    // The device has a block of memory for each buffer and layer.
    // Throws: std::bad_alloc or std::runtime_error with the numbers where memory is refused.
    Pools(const PoolFormat& format, int64_t pages, DeviceSide& side);

    [[nodiscard]] const HostMemory& host() const { return host_; }
    [[nodiscard]] const std::vector<DeviceBuffer>& device_buffers() const { return buffers_; }

    // Page p of the tier becomes PageContent{seed, p}.
    void fill(Tier tier, const HostLayout& layout, uint64_t seed);
    // Compares every byte of the tier with expected[p] for page p. Says where the first one found
    // to differ lies and what it is; nullopt if none does.
    [[nodiscard]] std::optional<std::string> difference(Tier tier, const HostLayout& layout,
                                                        std::span<const PageContent> expected);
    // Changes one byte of a page: of its last buffer and layer, in the middle.
    void spoil(Tier tier, const HostLayout& layout, int64_t page);

  private:
    struct Array {  // one (buffer, layer) of the device
        int buffer;
        int layer;
        int64_t page_bytes;
        uint64_t address;
    };
    struct Block {  // neighbouring pages of one array
        int64_t array;
        int64_t first_page;
        int64_t pages;
    };

    [[nodiscard]] std::vector<Block> device_blocks() const;
    [[nodiscard]] std::span<std::byte> host_page(const HostLayout& layout, int64_t array,
                                                 int64_t page) const;
    [[nodiscard]] std::string described(Tier tier, int64_t array, const PageContent& expected,
                                        int64_t page, int64_t offset, std::byte found) const;

    const PoolFormat format_;
    const int64_t pages_;
    DeviceSide& side_;
    const HostMemory host_;
    std::vector<Array> arrays_;
    std::vector<DeviceBuffer> buffers_;  // as arrays_
    int64_t staged_bytes_ = 0;
    std::vector<std::shared_ptr<std::byte[]>> staging_;  // one a thread
    ThreadTeam team_;
};

}  // namespace hicache::bench
