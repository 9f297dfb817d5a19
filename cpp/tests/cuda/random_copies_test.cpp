// Random pools, copies, fences, streams and failures on the CUDA backend over its stand-in, against
// a model of all bytes that takes one copy after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/cuda/stand_in.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

using Bytes = std::vector<std::byte>;
using Layers = std::vector<int>;

constexpr int kStreams = 4;
constexpr int64_t kPagesOfStream = 2;  // device pages 2 s and 2 s + 1 are read on stream s

class Dice {
  public:
    explicit Dice(unsigned seed) : random_(seed) {}

    int64_t number(int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random_() % static_cast<unsigned>(most - least + 1));
    }
    bool one_in(int64_t n) { return number(1, n) == 1; }
    template <typename T>
    void shuffle(std::vector<T>& values) {
        std::shuffle(values.begin(), values.end(), random_);
    }
    template <typename T>
    T any_of(const std::vector<T>& values) {
        return values[static_cast<size_t>(number(0, static_cast<int64_t>(values.size()) - 1))];
    }
    // n of first, first + 1, ... last; in order or not.
    Pages pages(int64_t first, int64_t last, int64_t n) {
        Pages all(static_cast<size_t>(last - first + 1));
        std::iota(all.begin(), all.end(), first);
        if (one_in(2)) shuffle(all);
        all.resize(static_cast<size_t>(n));
        return all;
    }
    Layers some_layers(int n) {
        Layers layers;
        for (int layer = 0; layer < n; ++layer) {
            if (!one_in(4)) layers.push_back(layer);
        }
        if (layers.empty()) layers.push_back(static_cast<int>(number(0, n - 1)));
        return layers;
    }

  private:
    std::mt19937 random_;
};

// Any way may be the cheapest one.
std::shared_ptr<const LinkCurve> random_curve(Dice& dice) {
    const auto costs = [&] {
        const double first = 1e-7 * static_cast<double>(dice.number(1, 100));
        const auto slope = static_cast<double>(dice.number(1, 20));
        return CostCurve({{100, first}, {10'000, first * slope}, {1'000'000, first * 100}});
    };
    const auto of_direction = [&] { return LinkCosts{costs(), costs(), costs()}; };
    return std::make_shared<const LinkCurve>(LinkCurve{{of_direction(), of_direction()}});
}

PoolShape random_shape(Dice& dice) {
    const std::vector<int64_t> rows{1, 3, 16, 64, 132, 656, 1024};
    PoolShape shape;
    shape.device = "cuda";
    shape.layout = dice.any_of<std::string>({"layer_first", "page_first", "page_first_direct"});
    shape.arrangement =
        dice.any_of<Arrangement>({Arrangement::kContiguous, Arrangement::kPaddedRows,
                                  Arrangement::kPackedPages, Arrangement::kRowsFirst});
    shape.latent_row = dice.any_of(rows);
    shape.index_row = dice.any_of(rows);
    shape.row_gap = dice.number(0, 20);
    shape.page_gap = dice.number(0, 40);
    shape.shift = dice.one_in(2) ? 0 : dice.number(0, 15);
    shape.rows = dice.number(1, 4);
    shape.layers = static_cast<int>(dice.number(1, 6));
    shape.latent_layers = dice.some_layers(shape.layers);
    shape.index_layers = dice.some_layers(shape.layers);
    shape.device_pages = dice.number(kStreams * kPagesOfStream + 1, 40);
    shape.host_pages = dice.number(8, 60);
    CopyOptions& options = shape.options;
    if (dice.one_in(2)) options.way = dice.any_of<Way>({kAllWays.begin(), kAllWays.end()});
    if (!dice.one_in(3)) options.staging_bytes = dice.number(1, 20'000);
    options.kernel_blocks = static_cast<int>(dice.number(1, 2));
    if (dice.one_in(3)) options.pin_chunk_bytes = 1000 * dice.number(1, 10);
    if (dice.one_in(8)) options.pinning = Pinning::kNever;
    options.link_curve = random_curve(dice);
    return shape;
}

struct Copy {
    Ticket ticket;
    Direction direction;
    Pages host;
    Pages device;
    Layers layers;
    bool fails;      // as fail_next() asked for
    int64_t copied;  // pairs, if the runtime refuses nothing
};

class RandomCopies {
  public:
    // refuses: one call of the engine's threads fails on the way.
    RandomCopies(unsigned seed, bool refuses)
        : dice_(seed),
          refuses_(refuses),
          shape_(random_shape(dice_)),
          refused_chunks_(dice_.one_in(2) ? dice_.number(0, 255) : 0),
          refused_([this](const std::byte*, size_t) {
              return (refused_chunks_ >> (registrations_++ % 8) & 1) != 0;
          }),
          pools_(shape_),
          host_(pools_.host_bytes()),
          device_(pools_.device_bytes()) {}

    void run() {
        TransferEngine& engine = pools_.engine();
        const int64_t copies = dice_.number(5, 40);
        if (refuses_) fail_queueing_after(static_cast<int>(dice_.number(0, 150)));
        for (int64_t i = 0; i < copies; ++i) {
            submit();
            for (const Direction direction : kDirections) {
                if (dice_.one_in(2)) let_go(direction, 1);
            }
            const bool held = held_[0] + held_[1] > 0;
            if (dice_.one_in(16) && !held) {
                ASSERT_TRUE(dice_.any_of(copies_).ticket.wait(60.0));
            }
            if (dice_.one_in(10)) engine.check();
        }
        if (!dice_.one_in(4)) {
            for (const Direction direction : kDirections)
                let_go(direction, held_[index(direction)]);
            for (const Copy& copy : copies_)
                ASSERT_TRUE(copy.ticket.wait(60.0));
            engine.check();
        }
        engine.close(60.0);
        fail_no_queueing();
        for (UserStream& stream : streams_)
            stream.wait();
        engine.check();
    }

    void compare() const {
        EXPECT_EQ(wrong_reads_, 0) << "layers that a stream saw too early";
        bool refused = false;
        for (const Copy& copy : copies_) {
            ASSERT_TRUE(copy.ticket.done());
            if (!refuses_) {
                ASSERT_EQ(copy.ticket.error().has_value(), copy.fails)
                    << copy.ticket.error().value_or("no error");
            }
            refused |= copy.ticket.error() && !copy.fails;
        }
        if (refused) {
            compare_what_is_decided();
        } else {
            EXPECT_TRUE(pools_.host_bytes() == host_);
            EXPECT_TRUE(pools_.device_bytes() == device_);
        }
    }

  private:
    using Place = std::pair<int64_t, int>;  // page, layer

    void submit() {
        TransferEngine& engine = pools_.engine();
        const Direction direction = dice_.one_in(2) ? kLoad : kSave;
        const bool loads = direction == kLoad;
        const bool read = loads && dice_.one_in(3);  // on the stream, layer by layer
        const auto stream = static_cast<size_t>(dice_.number(0, kStreams - 1));
        const int64_t others = kStreams * kPagesOfStream;
        const int64_t first = read ? static_cast<int64_t>(stream) * kPagesOfStream : others;
        const int64_t last = read ? first + kPagesOfStream - 1 : shape_.device_pages - 1;
        const int64_t most = std::min(shape_.host_pages, last - first + 1);
        const int64_t pages = read ? dice_.number(1, most) : dice_.number(0, most);
        Pages host = dice_.pages(0, shape_.host_pages - 1, pages);
        Pages device = dice_.pages(first, last, pages);
        if (pages > 2 && dice_.one_in(4)) (loads ? host : device)[1] = (loads ? host : device)[0];
        Layers layers(static_cast<size_t>(shape_.layers));
        std::iota(layers.begin(), layers.end(), 0);
        if (loads && dice_.one_in(2)) {
            dice_.shuffle(layers);
            layers.resize(static_cast<size_t>(dice_.number(1, shape_.layers)));
        }
        std::vector<FencePtr> after;
        if (read || dice_.one_in(2)) {
            if (auto fence = engine.record(streams_[stream].handle())) after.push_back(fence);
        }
        if (dice_.one_in(10)) {
            const Direction held = dice_.any_of<Direction>({kLoad, kSave});
            engine.hold(held);
            ++held_[index(held)];
        }
        const bool fails = !refuses_ && !read && pages > 0 && dice_.one_in(10);
        const int64_t copied = fails ? dice_.number(0, pages) : pages;
        if (fails) engine.fail_next(direction, copied);
        CopyHints hints;
        if (dice_.one_in(2)) hints.layerwise = dice_.one_in(2);
        if (dice_.one_in(2)) hints.beside_compute = dice_.one_in(2);
        const Ticket ticket =
            engine.submit(direction, host, device, layers, std::move(after), hints);
        pools_.apply(direction, {host.begin(), host.begin() + copied},
                     {device.begin(), device.begin() + copied}, layers, host_, device_);
        copies_.push_back({ticket, direction, host, device, layers, fails, copied});
        if (read) read_on(streams_[stream], copies_.back());
    }

    // The stream waits for some layers and compares each behind its wait.
    void read_on(UserStream& stream, const Copy& copy) {
        Layers layers = copy.layers;
        if (dice_.one_in(2)) dice_.shuffle(layers);
        if (dice_.one_in(2)) layers.resize(1);
        for (const int layer : layers) {
            if (dice_.one_in(3)) {
                std::this_thread::sleep_for(std::chrono::microseconds(dice_.number(0, 300)));
            }
            copy.ticket.wait_layer_on_stream(layer, stream.handle());
            if (refuses_) continue;
            std::vector<Bytes> wanted;
            for (const int64_t page : copy.device)
                wanted.push_back(pools_.device_layer(device_, page, layer));
            stream.run([this, layer, pages = copy.device, wanted = std::move(wanted)] {
                for (size_t i = 0; i < pages.size(); ++i) {
                    const auto& memory = pools_.device_bytes();
                    if (pools_.device_layer(memory, pages[i], layer) != wanted[i]) ++wrong_reads_;
                }
            });
        }
    }

    void let_go(Direction direction, int times) {
        int& held = held_[index(direction)];
        for (; held > 0 && times > 0; --times, --held)
            pools_.engine().release(direction);
    }

    // A refused copy leaves open what lies on its destinations, and so does what copies that on.
    void compare_what_is_decided() const {
        std::set<Place> open_host;
        std::set<Place> open_device;
        for (const Copy& copy : copies_) {
            const bool loads = copy.direction == kLoad;
            const auto& from = loads ? open_host : open_device;
            auto& to = loads ? open_device : open_host;
            for (size_t i = 0; i < copy.host.size(); ++i) {
                const int64_t source = loads ? copy.host[i] : copy.device[i];
                const int64_t target = loads ? copy.device[i] : copy.host[i];
                for (const int layer : copy.layers) {
                    if (copy.ticket.error() || from.contains({source, layer})) {
                        to.insert({target, layer});
                    } else {
                        to.erase({target, layer});
                    }
                }
            }
        }
        const Bytes host = pools_.host_bytes();
        for (int layer = 0; layer < shape_.layers; ++layer) {
            for (int64_t page = 0; page < shape_.host_pages; ++page) {
                if (open_host.contains({page, layer})) continue;
                EXPECT_TRUE(pools_.host_layer(host, page, layer) ==
                            pools_.host_layer(host_, page, layer))
                    << "host page " << page << ", layer " << layer;
            }
            for (int64_t page = 0; page < shape_.device_pages; ++page) {
                if (open_device.contains({page, layer})) continue;
                EXPECT_TRUE(pools_.device_layer(pools_.device_bytes(), page, layer) ==
                            pools_.device_layer(device_, page, layer))
                    << "device page " << page << ", layer " << layer;
            }
        }
    }

    Dice dice_;
    const bool refuses_;
    const PoolShape shape_;
    const int64_t refused_chunks_;  // bit by bit, of eight
    int registrations_ = 0;
    const RefusedRegistrations refused_;  // those chunks stay pageable
    TransferPools pools_;
    Bytes host_;    // what should be there
    Bytes device_;  // likewise
    std::array<UserStream, kStreams> streams_;
    std::array<int, 2> held_{0, 0};
    std::vector<Copy> copies_;
    std::atomic<int> wrong_reads_{0};
};

class CudaRandomCopies : public testing::TestWithParam<unsigned> {};

TEST_P(CudaRandomCopies, EndAsIfOneAfterTheOther) {
    for (unsigned part = 0; part < 4; ++part) {
        SCOPED_TRACE(part);
        RandomCopies copies(GetParam() * 4 + part, false);
        ASSERT_NO_FATAL_FAILURE(copies.run());
        ASSERT_NO_FATAL_FAILURE(copies.compare());
    }
}

TEST_P(CudaRandomCopies, ARefusedCallFailsItsCopyAndNoOther) {
    for (unsigned part = 0; part < 4; ++part) {
        SCOPED_TRACE(part);
        RandomCopies copies(GetParam() * 4 + part, true);
        ASSERT_NO_FATAL_FAILURE(copies.run());
        ASSERT_NO_FATAL_FAILURE(copies.compare());
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaRandomCopies, testing::Range(0U, 30U));

}  // namespace
}  // namespace hicache::testing_support
