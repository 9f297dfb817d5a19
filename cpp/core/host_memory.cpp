#include "core/host_memory.h"

#include <system_error>
#include <utility>

#include "core/available_memory.h"
#include "core/errors.h"
#include "core/mapping_failed.h"
#include "core/process.h"

namespace hicache {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;

void check_options(const PreparationOptions& options) {
    if (options.threads < 0) {
        bad_argument("threads is ", options.threads, "; it must not be negative.");
    }
    if (options.first_bytes < 0) {
        bad_argument("first_bytes is ", options.first_bytes, "; it must not be negative.");
    }
    if (options.step_bytes <= 0) {
        bad_argument("step_bytes is ", options.step_bytes, "; it must be above 0.");
    }
}

std::shared_ptr<const AnonymousBytes> map(int64_t nbytes, const PreparationOptions& preparation,
                                          MappingOptions mapping) {
    check_options(preparation);
    if (nbytes < 0) bad_argument("nbytes is ", nbytes, "; it must not be negative.");
    const auto& most = mapping.most;
    if (most && *most < 0) bad_argument("most is ", *most, "; it must not be negative.");
    const int64_t room = most ? *most : available_memory();
    if (nbytes > kMaxBytes || ((preparation.prefault || most) && nbytes > room)) {
        throw MappingFailed(nbytes, "not enough memory", room);
    }
    mapping.threads = preparation.threads;
    return std::make_shared<const AnonymousBytes>(nbytes, mapping);
}

}  // namespace

struct HostMemory::Shared {
    std::shared_ptr<const HostBytes> bytes;
    std::string warning;
    ProcessMark process;
    std::unique_ptr<Preparation> preparation;

    ~Shared() {
        // The parent's threads do not exist in a child: leave all that knows them as it is.
        if (process.forked()) static_cast<void>(preparation.release());
    }
};

HostMemory::HostMemory(int64_t nbytes, const PreparationOptions& preparation,
                       const MappingOptions& mapping)
    : HostMemory(map(nbytes, preparation, mapping), preparation) {
    shared_->warning = static_cast<const AnonymousBytes&>(*shared_->bytes).warning();
}

HostMemory::HostMemory(std::shared_ptr<const HostBytes> bytes,
                       const PreparationOptions& preparation)
    : shared_(std::make_shared<Shared>()) {
    check_options(preparation);
    shared_->bytes = std::move(bytes);
    try {
        shared_->preparation = std::make_unique<Preparation>(data(), nbytes(), preparation);
    } catch (const std::system_error& error) {
        throw MappingFailed(nbytes(), error.code().message().c_str());
    }
}

Preparation& HostMemory::preparation() const {
    shared_->process.require_same("host memory");
    return *shared_->preparation;
}

int64_t HostMemory::nbytes() const {
    return shared_->bytes->nbytes();
}
std::byte* HostMemory::data() const {
    return shared_->bytes->data();
}
const HostBytes& HostMemory::bytes() const {
    return *shared_->bytes;
}
const std::string& HostMemory::warning() const {
    return shared_->warning;
}
int64_t HostMemory::ready_bytes() const {
    return shared_->preparation->ready_bytes();
}
int64_t HostMemory::step_bytes() const {
    return shared_->preparation->step_bytes();
}
int64_t HostMemory::take_ready() const {
    return preparation().take_ready();
}
bool HostMemory::ended() const {
    return preparation().ended();
}
std::vector<PreparationNote> HostMemory::take_notes() const {
    return preparation().take_notes();
}
bool HostMemory::wait_ready(Timeout timeout) const {
    return preparation().wait_ready(timeout);
}
void HostMemory::attach(const std::shared_ptr<PinnedChunks>& chunks) const {
    preparation().attach(chunks);
}
void HostMemory::detach(const std::shared_ptr<PinnedChunks>& chunks) const noexcept {
    if (!shared_->process.forked()) shared_->preparation->detach(chunks);
}
Preparation::Registered HostMemory::registered() const {
    return preparation().registered();
}
void HostMemory::step() const {
    preparation().step();
}
void HostMemory::unhold() const {
    preparation().unhold();
}
void HostMemory::stop() const noexcept {
    if (!shared_->process.forked()) shared_->preparation->stop();
}
void HostMemory::check() const {
    shared_->bytes->check();
}

}  // namespace hicache
