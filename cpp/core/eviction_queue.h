// Which page of an index goes next: one policy, behind one interface.
//
// The index says which pages there are, when they are used and which of them may go (no key below
// them, no pin); the queue decides among those that may. A new policy is a class and a line in the
// table of eviction_queue.cpp.
//
// Not thread-safe; the index serialises calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hicache {

class EvictionQueue {
  public:
    EvictionQueue() = default;
    EvictionQueue(const EvictionQueue&) = delete;
    EvictionQueue& operator=(const EvictionQueue&) = delete;
    virtual ~EvictionQueue() = default;

    // The page is stored and used as of now. It may not go yet.
    // Requires: it is not in the queue.
    virtual void add(uint32_t page, int32_t priority) = 0;

    // Requires, all four: the page is in the queue.
    virtual void use(uint32_t page) = 0;
    virtual void set_ready(uint32_t page, bool may_go) = 0;
    virtual void remove(uint32_t page) = 0;
    [[nodiscard]] virtual bool is_ready(uint32_t page) const = 0;

    // The page that goes next, of those that may go; -1: none may. It stays in the queue.
    [[nodiscard]] virtual int64_t next() = 0;

    [[nodiscard]] virtual bool contains(uint32_t page) const = 0;
    [[nodiscard]] virtual int64_t size() const = 0;

    // Throws: std::runtime_error that says what is wrong.
    virtual void check() const = 0;
};

// The names of all policies, joined by ", ".
[[nodiscard]] std::string eviction_policies();

// Throws: std::invalid_argument for a name that is none, with those that are; std::bad_alloc.
[[nodiscard]] std::unique_ptr<EvictionQueue> make_eviction_queue(std::string_view policy,
                                                                 int64_t num_pages);

}  // namespace hicache
