#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <tuple>

#include "bindings/bindings.h"
#include "core/host_layout.h"
#include "core/pool_format.h"

namespace hicache::bindings {

using namespace nb::literals;
using BufferTuple = std::tuple<std::string, int64_t, std::vector<int>>;

void bind_formats(nb::module_& m) {
    nb::class_<PoolFormat>(m, "PoolFormat",
                           "Which buffers a page has and how many bytes each takes.")
        .def(
            "__init__",
            [](PoolFormat* self, int64_t page_size, int num_layers,
               const std::vector<BufferTuple>& buffers) {
                std::vector<BufferFormat> formats;
                for (const auto& [name, bytes, layers] : buffers)
                    formats.push_back({name, bytes, layers});
                new (self) PoolFormat(page_size, num_layers, std::move(formats));
            },
            "page_size"_a, "num_layers"_a, "buffers"_a,
            "buffers: (name, bytes of one page of one layer, owning layers ascending).")
        .def_prop_ro("page_size", &PoolFormat::page_size, "Slots a page.")
        .def_prop_ro("num_layers", &PoolFormat::num_layers)
        .def_prop_ro("page_bytes", &PoolFormat::page_bytes, "Bytes of a page's record.")
        .def("layer_bytes", &PoolFormat::layer_bytes, "layer"_a,
             "Bytes of one page's buffers of one layer.")
        .def(
            "__eq__", [](const PoolFormat& a, const PoolFormat& b) { return a == b; },
            nb::is_operator(), nb::sig("def __eq__(self, arg: object, /) -> bool"));

    nb::class_<HostLayout>(m, "HostLayout", "Where a page's bytes lie in the host pool.")
        .def(nb::init<PoolFormat, std::string_view, int64_t>(), "format"_a, "layout"_a,
             "num_pages"_a, "layout: 'layer_first', 'page_first' or 'page_first_direct'.")
        .def_prop_ro("format", &HostLayout::format, nb::rv_policy::copy)
        .def_prop_ro("layout", &HostLayout::name)
        .def_prop_ro("num_pages", &HostLayout::num_pages)
        .def_prop_ro("total_bytes", &HostLayout::total_bytes)
        .def("offset", &HostLayout::offset, "buffer"_a, "layer"_a, "page"_a,
             "First byte of one (buffer index, layer, page) in the pool.");
}

}  // namespace hicache::bindings
