// A copy as rectangles of bytes, for copy engines: as few and as large ones as both sides allow.
//
// Pure arithmetic: same geometry and same runs, same blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "transfer/copy_geometry.h"
#include "transfer/copy_plan.h"

namespace hicache {

// `rows` rows of `width` bytes; pitch: bytes from a row to the next. One row: pitches unused.
struct Block {
    int64_t host;  // offset in the host pool
    uint64_t device;
    int64_t width;
    int64_t rows;
    int64_t host_pitch;
    int64_t device_pitch;

    bool operator==(const Block&) const = default;
    [[nodiscard]] int64_t bytes() const { return width * rows; }
};

// Pitches that a 2-D copy accepts; what lies further apart is copied row by row.
inline constexpr int64_t kLargestPitch = (int64_t{1} << 31) - 1;
[[nodiscard]] inline bool pitchable(int64_t pitch, int64_t width) {
    return pitch >= width && pitch <= kLargestPitch;
}

// Appends the blocks of a run of pages of one segment of one layer.
void append_blocks(const Segment& segment, PageRun run, std::vector<Block>& blocks);

// Appends the blocks of a run of pages of one part of whole records.
void append_blocks(const RecordPart& part, PageRun run, std::vector<Block>& blocks);

// Cuts blocks so that none crosses a multiple of chunk_bytes of the host pool: memory that was
// pinned in chunks is copied chunk by chunk. Requires: chunk_bytes > 0, host pitches >= width.
[[nodiscard]] std::vector<Block> cut_at_chunks(const std::vector<Block>& blocks,
                                               int64_t chunk_bytes);

}  // namespace hicache
