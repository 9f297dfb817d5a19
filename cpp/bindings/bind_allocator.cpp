#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.h"
#include "core/page_allocator.h"

namespace hicache::bindings {

using namespace nb::literals;

void bind_allocator(nb::module_& m) {
    nb::class_<PageAllocator>(m, "PageAllocator", "Hands out the pages of one pool.")
        .def(
            "__init__",
            [](PageAllocator* self, int64_t num_pages, const PageArray& reserved,
               std::optional<int64_t> ready) {
                new (self) PageAllocator(num_pages, items(reserved), ready);
            },
            "num_pages"_a, "reserved"_a.noconvert(), "ready"_a = nb::none(),
            "reserved: page ids that are never handed out. ready: only the first so many pages are "
            "there at the beginning; None: all.")
        .def_prop_ro("num_pages", &PageAllocator::num_pages,
                     "Pages, those that are reserved or not there yet included.")
        .def_prop_ro("total_pages", &PageAllocator::total_pages, "Pages that can be handed out.")
        .def_prop_ro("ready_pages", &PageAllocator::ready_pages,
                     "The first so many pages are there.")
        .def("grow", &PageAllocator::grow, "ready"_a,
             "Makes the first so many pages be there; fewer than there are: nothing.")
        .def_prop_ro("free_pages", &PageAllocator::free_pages)
        .def_prop_ro("num_extents", &PageAllocator::num_extents,
                     "Free extents: maximal runs of neighbouring free pages.")
        .def_prop_ro("largest_extent", &PageAllocator::largest_extent,
                     "Pages of the longest free extent.")
        .def(
            "allocate",
            [](PageAllocator& self, int64_t n) -> std::optional<Int64Result> {
                auto pages = self.allocate(n);
                if (!pages) return std::nullopt;
                return int64_result(std::move(*pages));
            },
            "n"_a, nb::rv_policy::copy,
            "n page ids, ascending and in as few runs of neighbours as possible, from the upper "
            "end of "
            "the smallest run that has them; None if fewer are free.")
        .def(
            "free", [](PageAllocator& self, const PageArray& pages) { self.free(items(pages)); },
            "pages"_a.noconvert(),
            "Gives pages back, in any order. ValueError, nothing freed: a page that is out of "
            "range, "
            "reserved, free already or twice in the list.")
        .def(
            "is_allocated",
            [](const PageAllocator& self, const PageArray& pages) {
                return self.is_allocated(items(pages));
            },
            "pages"_a.noconvert(), "Whether every page is allocated.")
        .def("check", &PageAllocator::check,
             "RuntimeError with both sides of an equation that does not hold.");
}

}  // namespace hicache::bindings
