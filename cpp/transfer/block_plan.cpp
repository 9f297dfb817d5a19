#include "transfer/block_plan.h"

#include <algorithm>

namespace hicache {
namespace {

// One block if both pitches allow it, else a block a row.
void append(const Block& block, std::vector<Block>& blocks) {
    if (block.rows == 1 ||
        (pitchable(block.host_pitch, block.width) && pitchable(block.device_pitch, block.width))) {
        blocks.push_back(block);
        return;
    }
    for (int64_t row = 0; row < block.rows; ++row) {
        const auto shift = static_cast<uint64_t>(row * block.device_pitch);
        blocks.push_back(
            {block.host + row * block.host_pitch, block.device + shift, block.width, 1, 0, 0});
    }
}

// Pages of `width` contiguous bytes on both sides.
void append_pages(const Block& first, int64_t pages, std::vector<Block>& blocks) {
    if (first.host_pitch == first.width && first.device_pitch == first.width) {
        blocks.push_back({first.host, first.device, first.width * pages, 1, 0, 0});
    } else {
        append({first.host, first.device, first.width, pages, first.host_pitch, first.device_pitch},
               blocks);
    }
}

}  // namespace

void append_blocks(const Segment& segment, PageRun run, std::vector<Block>& blocks) {
    const DeviceBuffer& buffer = segment.device;
    const int64_t host = segment.host_base + run.host_page * segment.host_stride;
    const uint64_t device =
        buffer.address + static_cast<uint64_t>(run.device_page * buffer.page_stride);
    if (buffer.packed()) {
        append_pages(
            {host, device, segment.page_bytes(), 1, segment.host_stride, buffer.page_stride},
            run.count, blocks);
        return;
    }
    Block page{host, device, buffer.row_bytes, buffer.rows, buffer.row_bytes, buffer.row_stride};
    if (segment.host_stride == segment.page_bytes() &&
        buffer.page_stride == buffer.rows * buffer.row_stride) {
        page.rows *= run.count;  // the rows of all pages are equally far apart
        append(page, blocks);
        return;
    }
    for (int64_t i = 0; i < run.count; ++i) {
        append(page, blocks);
        page.host += segment.host_stride;
        page.device += static_cast<uint64_t>(buffer.page_stride);
    }
}

void append_blocks(const RecordPart& part, PageRun run, std::vector<Block>& blocks) {
    const int64_t host = part.host_base + run.host_page * part.host_stride;
    const uint64_t device =
        part.device + static_cast<uint64_t>(run.device_page * part.device_stride);
    if (part.layers == 1) {
        append_pages({host, device, part.width, 1, part.host_stride, part.device_stride}, run.count,
                     blocks);
        return;
    }
    for (int64_t i = 0; i < run.count; ++i) {
        append({host + i * part.host_stride, device + static_cast<uint64_t>(i * part.device_stride),
                part.width, part.layers, part.host_pitch, part.device_pitch},
               blocks);
    }
}

std::vector<Block> cut_at_chunks(const std::vector<Block>& blocks, int64_t chunk_bytes) {
    std::vector<Block> cut;
    cut.reserve(blocks.size());
    for (Block left : blocks) {
        while (left.rows > 0) {
            const int64_t border = (left.host / chunk_bytes + 1) * chunk_bytes;
            const int64_t room = border - left.host;
            if (left.width > room) {  // the first row crosses: cut it at every border
                for (int64_t at = 0; at < left.width;) {
                    const int64_t here = left.host + at;
                    const int64_t end = (here / chunk_bytes + 1) * chunk_bytes;
                    const int64_t n = std::min(left.width - at, end - here);
                    cut.push_back({here, left.device + static_cast<uint64_t>(at), n, 1, 0, 0});
                    at += n;
                }
            }
            const int64_t whole =
                left.width > room
                    ? 0
                    : (left.rows == 1
                           ? 1
                           : std::min(left.rows, (room - left.width) / left.host_pitch + 1));
            if (whole > 0) {
                Block part = left;
                part.rows = whole;
                if (whole == 1) part.host_pitch = part.device_pitch = 0;
                cut.push_back(part);
            }
            const int64_t taken = std::max<int64_t>(whole, 1);
            left.host += taken * left.host_pitch;
            left.device += static_cast<uint64_t>(taken * left.device_pitch);
            left.rows -= taken;
        }
    }
    return cut;
}

}  // namespace hicache
