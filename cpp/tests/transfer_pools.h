// Pools for the transfer tests: a device pool in one of several arrangements, a host pool, an
// engine between them, and a byte-for-byte model of both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/stream_clock.h"
#include "transfer/transfer_engine.h"

namespace hicache::testing_support {

using Pages = std::vector<int64_t>;

inline constexpr auto kLoad = Direction::kHostToDevice;
inline constexpr auto kSave = Direction::kDeviceToHost;

// How the device keeps the pages of a (buffer, layer).
enum class Arrangement {
    kContiguous,   // [buffer][layer][page][row]
    kPaddedRows,   // the same with row_gap behind rows and page_gap behind pages
    kPackedPages,  // [page][layer][buffer][row]: a page's record is contiguous
    kRowsFirst,    // [buffer][layer][row][page]
};

struct PoolShape {
    std::string layout = "page_first";
    Arrangement arrangement = Arrangement::kContiguous;
    int64_t latent_row = 656;
    int64_t rows = 4;
    int layers = 3;
    std::vector<int> index_layers = {0, 2};
    int64_t device_pages = 12;
    int64_t host_pages = 16;
    int workers = 2;
    std::optional<std::vector<int>> latent_layers{};  // nullopt: all
    int64_t index_row = 132;
    int64_t row_gap = 12;
    int64_t page_gap = 20;
    int64_t shift = 0;  // bytes by which device buffers miss their alignment
    std::string device = "cpu";
    CopyOptions options{};  // workers: as above
    PreparationOptions memory{};
};

class TransferPools {
  public:
    explicit TransferPools(const PoolShape& shape);

    TransferEngine& engine() { return *engine_; }
    [[nodiscard]] const TransferEngine& engine() const { return *engine_; }
    [[nodiscard]] const PoolFormat& format() const { return format_; }
    [[nodiscard]] const HostMemory& host_memory() const { return host_; }
    void drop_engine() { engine_.reset(); }
    [[nodiscard]] std::unique_ptr<TransferEngine> another_engine(const CopyOptions& options) const;

    Ticket submit(Direction direction, const Pages& host, const Pages& device,
                  const std::optional<std::vector<int>>& layers = std::nullopt,
                  std::vector<FencePtr> after = {});

    // The host pool's digests, which the engine keeps if its options say so.
    [[nodiscard]] const std::shared_ptr<DigestTable>& digests() const { return digests_; }
    // byte: of the entry that the layer's buffers of the page form.
    void flip_host_bit(int64_t page, int layer, int64_t byte);

    // Fills every byte, padding included, from a seed.
    void fill_device(uint64_t seed);
    void fill_host(uint64_t seed);

    // A page's record (every layer and buffer), read through the addresses, not the engine.
    [[nodiscard]] std::vector<std::byte> device_record(int64_t page) const;
    [[nodiscard]] std::vector<std::byte> host_record(int64_t page) const;

    // A page's bytes of one layer in `device`, which is as long as device_bytes().
    [[nodiscard]] std::vector<std::byte> device_layer(const std::vector<std::byte>& device,
                                                      int64_t page, int layer) const;
    [[nodiscard]] std::vector<std::byte> host_layer(const std::vector<std::byte>& host,
                                                    int64_t page, int layer) const;

    // Everything, guards and padding included, to compare whole memories.
    [[nodiscard]] const std::vector<std::byte>& device_bytes() const { return device_; }
    [[nodiscard]] std::vector<std::byte> host_bytes() const;

    // What a copy should make of whole memories: applies it byte by byte.
    void apply(Direction direction, const Pages& host, const Pages& device,
               const std::vector<int>& layers, std::vector<std::byte>& host_bytes,
               std::vector<std::byte>& device_bytes) const;

  private:
    struct Place {  // one row
        int64_t host;
        int64_t device;
        int64_t bytes;
    };
    [[nodiscard]] std::vector<Place> places(int64_t host_page, int64_t device_page,
                                            int layer) const;
    void arrange(const PoolShape& shape);

    std::string device_name_;
    int64_t device_pages_;
    PoolFormat format_;
    HostLayout layout_;
    HostMemory host_;
    std::vector<std::byte> device_;  // with guard bytes in front and behind
    std::vector<DeviceBuffer> buffers_;
    std::vector<std::vector<int>> buffer_of_;  // [buffer][layer] -> index in buffers_, or -1
    std::shared_ptr<DigestTable> digests_;
    std::unique_ptr<TransferEngine> engine_;
};

}  // namespace hicache::testing_support
