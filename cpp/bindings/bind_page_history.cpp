
#include "bindings/bindings.h"
#include "core/errors.h"
#include "core/page_history.h"
#include "core/token_span.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;

// Page keys as Python keeps them, 8 bytes each. Bytes objects hold them aligned.
std::span<const uint64_t> keys_of(const nb::bytes& keys) {
    if (keys.size() % sizeof(uint64_t) != 0) {
        bad_argument(keys.size(), " bytes are no page keys, which have 8 each.");
    }
    return {static_cast<const uint64_t*>(keys.data()), keys.size() / sizeof(uint64_t)};
}

uint64_t key_of(const nb::bytes& keys) {
    const auto all = keys_of(keys);
    if (all.empty()) bad_argument("There is no page key in 0 bytes.");
    return all.back();
}

nb::tuple losses(const PageHistory& self, const TokenSpan& tokens, int64_t begin, int64_t page_size,
                 const nb::bytes& above) {
    const auto all = tokens.tokens();
    if (page_size < 1) bad_argument("page_size=", page_size, " must be 1 or more.");
    if (begin < 0 || begin > static_cast<int64_t>(all.size())) {
        bad_argument("begin=", begin, " is outside the ", all.size(), " tokens.");
    }
    const auto rest = all.subspan(static_cast<size_t>(begin));
    const auto found = self.losses(rest, page_size, key_of(above));
    return nb::make_tuple(found.evicted, found.flushed, found.failed);
}

const char* what(const PageHistory& self, const nb::bytes& keys) {
    const uint64_t key = key_of(keys);
    if (self.is_cached(key)) return "cached";
    const auto loss = self.loss(key);
    if (!loss) return "unknown";
    return *loss == Loss::kEvicted ? "evicted" : *loss == Loss::kFlushed ? "flushed" : "failed";
}

template <Loss loss>
void leave(PageHistory& self, const nb::bytes& keys) {
    self.leave(keys_of(keys), loss);
}

}  // namespace

void bind_page_history(nb::module_& m) {
    nb::class_<PageHistory>(m, "PageHistory",
                            "What became of pages, by page key: bounded. Keys are packed, 8 bytes "
                            "each.")
        .def(nb::init<int64_t>(), "capacity"_a)
        .def_prop_ro("capacity", &PageHistory::capacity, "Pages that it can know.")
        .def_prop_ro("cached", &PageHistory::cached, "Pages that are in a tier, as far as noted.")
        .def("__len__", &PageHistory::size, "Pages that it knows.")
        .def(
            "enter", [](PageHistory& self, const nb::bytes& keys) { self.enter(keys_of(keys)); },
            "keys"_a, "The pages are in a tier from now on.")
        .def("evict", &leave<Loss::kEvicted>, "keys"_a, "Eviction took them from their last tier.")
        .def("lose", &leave<Loss::kFlushed>, "keys"_a, "A flush took them.")
        .def("fail", &leave<Loss::kFailed>, "keys"_a, "They were found wrong and taken out.")
        .def(
            "never_came",
            [](PageHistory& self, const nb::bytes& keys) { self.never_came(keys_of(keys)); },
            "keys"_a, "They would have come, but a copy failed; what is in a tier stays as it is.")
        .def(
            "save_failed",
            [](PageHistory& self, const nb::bytes& keys) { self.save_failed(keys_of(keys)); },
            "keys"_a, "If pages of these go that are in a tier now, a failed save is why.")
        .def(
            "saved", [](PageHistory& self, const nb::bytes& keys) { self.saved(keys_of(keys)); },
            "keys"_a, "A later save of them went well.")
        .def("flush", &PageHistory::flush, "No page is in a tier any more; O(1).")
        .def("losses", &losses, "tokens"_a, "begin"_a, "page_size"_a, "above"_a,
             nb::sig("def losses(self, tokens: TokenSpan, begin: int, page_size: int, "
                     "above: bytes) -> tuple[int, int, int]"),
             "Whole pages from token `begin` on that are gone, up to the first of which nothing is "
             "known: evicted, flushed, failed. above: page keys, the last one that of the page "
             "before.")
        .def("what", &what, "key"_a, "'cached', 'evicted', 'flushed', 'failed' or 'unknown'.")
        .def("check", &PageHistory::check,
             "RuntimeError with both sides of an equation that does not hold.");
}

}  // namespace hicache::bindings
