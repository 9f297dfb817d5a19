#include "transfer/ticket.h"

#include <utility>

namespace hicache {

Ticket::Ticket(std::shared_ptr<CopyJob> job) : job_(std::move(job)) {}

bool Ticket::done() const {
    return job_->done();
}
std::optional<std::string> Ticket::error() const {
    return job_->error();
}
bool Ticket::wait(Timeout timeout) const {
    return job_->wait(timeout);
}
bool Ticket::wait_layer(int layer, Timeout timeout, bool goes_on) const {
    return job_->wait_layer(layer, timeout, goes_on);
}
void Ticket::wait_layer_on_stream(int layer, uintptr_t stream) const {
    job_->wait_layer_on_stream(layer, stream);
}
bool Ticket::layer_done(int layer) const {
    return job_->layer_done(layer);
}
int64_t Ticket::pages() const {
    return job_->order().pages;
}
int64_t Ticket::nbytes() const {
    return job_->order().pages * job_->order().page_bytes;
}
int64_t Ticket::pages_copied() const {
    return job_->pages_copied();
}
std::vector<int64_t> Ticket::corrupt() const {
    return job_->corrupt();
}
double Ticket::seconds() const {
    return job_->seconds();
}

}  // namespace hicache
