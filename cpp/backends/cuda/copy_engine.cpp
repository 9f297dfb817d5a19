#include "backends/cuda/copy_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {
namespace {

// Several engines share a batch and wait for each other at its end: no piece may take long.
constexpr int64_t kLongestPiece = int64_t{512} << 10;

constexpr bool kBatches = CUDART_VERSION >= 13000;

// A batch takes the room of one operation for about so many of its pieces.
constexpr size_t kPiecesOfACall = 16;

std::byte* device_pointer(uint64_t address) {
    return reinterpret_cast<std::byte*>(address);
}

cudaMemcpyKind kind_of(Direction direction) {
    return direction == Direction::kHostToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
}

}  // namespace

void CopyEngine::queue(const std::vector<Block>& blocks, Direction direction, cudaStream_t stream,
                       QueueLimit& limit) const {
    const std::vector<Block> cut =
        chunk_bytes_ > 0 ? cut_at_chunks(blocks, chunk_bytes_) : std::vector<Block>{};
    const int64_t longest =
        pinned_ && kBatches ? kLongestPiece : std::numeric_limits<int64_t>::max();
    std::vector<Block> pieces;
    for (const Block& block : chunk_bytes_ > 0 ? cut : blocks) {
        if (block.rows == 1) {
            for (int64_t at = 0; at < block.width; at += std::min(longest, block.width - at)) {
                pieces.push_back({block.host + at, block.device + static_cast<uint64_t>(at),
                                  std::min(longest, block.width - at), 1, 0, 0});
                if (pieces.size() == size_t{QueueLimit::kStep})
                    queue_pieces(pieces, direction, stream, limit);
            }
        } else {
            queue_rectangle(block, direction, stream);
            limit.queued(1);
        }
    }
    queue_pieces(pieces, direction, stream, limit);
}

void CopyEngine::queue_rectangle(const Block& block, Direction direction,
                                 cudaStream_t stream) const {
    void* to = device_pointer(block.device);
    void* from = host_ + block.host;
    auto to_pitch = static_cast<size_t>(block.device_pitch);
    auto from_pitch = static_cast<size_t>(block.host_pitch);
    if (direction == Direction::kDeviceToHost) {
        std::swap(to, from);
        std::swap(to_pitch, from_pitch);
    }
    require(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, static_cast<size_t>(block.width),
                              static_cast<size_t>(block.rows), kind_of(direction), stream),
            "Copying ", block.rows, " rows of ", block.width, " bytes");
}

void CopyEngine::queue_pieces(std::vector<Block>& pieces, Direction direction, cudaStream_t stream,
                              QueueLimit& limit) const {
    if (pieces.empty()) return;
    std::vector<void*> to;
    std::vector<void*> from;
    std::vector<size_t> bytes;
    for (const Block& piece : pieces) {
        to.push_back(device_pointer(piece.device));
        from.push_back(host_ + piece.host);
        bytes.push_back(static_cast<size_t>(piece.width));
    }
    if (direction == Direction::kDeviceToHost) to.swap(from);
    size_t single = 0;
#if CUDART_VERSION >= 13000
    if (pinned_ && pieces.size() > 1) {
        cudaMemcpyAttributes attributes{};
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
        attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
        size_t first = 0;
        require(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(),
                                     &attributes, &first, 1, stream),
                "Copying a batch of ", pieces.size(), " pieces");
        single = pieces.size();
    }
#endif
    for (size_t i = single; i < pieces.size(); ++i) {
        require(cudaMemcpyAsync(to[i], from[i], bytes[i], kind_of(direction), stream), "Copying ",
                bytes[i], " bytes");
    }
    const size_t calls = pieces.size() - single + 1 + single / kPiecesOfACall;
    limit.queued(static_cast<int>(calls));
    pieces.clear();
}

}  // namespace hicache::cuda
