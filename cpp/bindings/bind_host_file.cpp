#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>

#include "bindings/bindings.h"
#include "core/digest_table.h"
#include "core/errors.h"
#include "core/host_file.h"
#include "core/huge_pages.h"
#include "core/packed_tokens.h"
#include "core/token_span.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

nb::bytes packed_tokens(std::span<const int64_t> tokens) {
    std::vector<std::byte> packed(tokens.size() * sizeof(int32_t));
    if (!pack_narrow(tokens, packed.data())) {
        packed.resize(tokens.size_bytes());
        pack_wide(tokens, packed.data());
    }
    return nb::bytes(packed.data(), packed.size());
}

// A node as the tree is made of it: see the docstring of restore().
nb::tuple node_of(const Restored& restored, const RestoredNode& node, int64_t page_size) {
    const auto first = static_cast<size_t>(node.first), size = static_cast<size_t>(node.size);
    const auto page = static_cast<size_t>(page_size);
    const auto pages = std::span(restored.pages).subspan(first, size);
    const auto tokens = std::span(restored.tokens).subspan(first * page, size * page);
    return nb::make_tuple(node.parent, node.root, packed_tokens(tokens), tokens.size(),
                          nb::bytes(pages.data(), pages.size_bytes()), node.priority, node.created,
                          node.used);
}

nb::object restore(HostFile& file) {
    Restored restored;
    {
        nb::gil_scoped_release unlocked;
        restored = file.table().restore();
    }
    nb::list namespaces, nodes;
    for (const std::string& name : restored.namespaces)
        namespaces.append(nb::bytes(name.data(), name.size()));
    for (const RestoredNode& node : restored.nodes)
        nodes.append(node_of(restored, node, file.shape().page_size));
    const int64_t damaged = restored.damaged;
    return nb::make_tuple(std::move(namespaces), std::move(nodes),
                          nb::cast(int64_result(std::move(restored.pages)), nb::rv_policy::copy),
                          damaged);
}

// With room for the digest of each page and layer.
FileShape shape_of(const HostLayout& layout, const std::string& fingerprint, int64_t block) {
    const int64_t words = DigestTable::num_words(1, layout.format().num_layers());
    return {layout, fingerprint, block, words * static_cast<int64_t>(sizeof(uint64_t))};
}

}  // namespace

void bind_host_file(nb::module_& m) {
    m.def("host_file_block", &host_file_block, "path"_a,
          "Bytes of a block of the memory file system that the path is on. ValueError: the folder "
          "isn't there, or on another kind of file system.");
    m.def(
        "host_file_bytes",
        [](const HostLayout& layout, int64_t block) {
            return shape_of(layout, "", block).file_bytes;
        },
        "layout"_a, "block"_a, "Bytes of a host file with that pool on such a file system.");

    m.def(
        "host_file_missing",
        [](const std::string& path, const HostLayout& layout, const std::string& fingerprint,
           int64_t block) { return missing_bytes(path, shape_of(layout, fingerprint, block)); },
        "path"_a, "layout"_a, "fingerprint"_a, "block"_a,
        "Bytes that such a file at that path still takes: none if there is one that can be used.");

    nb::class_<HostFile>(m, "HostFile",
                         "A host pool in a file, with a page table that outlives the process.")
        .def(
            "__init__",
            [](HostFile* self, const std::string& path, const HostLayout& layout,
               const std::string& fingerprint, int64_t block, bool touched, double wait_seconds) {
                nb::gil_scoped_release unlocked;
                new (self)
                    HostFile(path, shape_of(layout, fingerprint, block), touched, wait_seconds);
            },
            "path"_a, "layout"_a, "fingerprint"_a, "block"_a, "touched"_a = false,
            "wait_seconds"_a = 30.0,
            "Opens the file or makes one, and owns it. touched: its bytes are touched before they "
            "are used, a large file is not reserved at once. A file that does not fit is set "
            "aside. "
            "RuntimeError with the next step: owned by somebody, no permission, no room.")
        .def_prop_ro("warnings", &HostFile::warnings, "What was set aside, and why.")
        .def_prop_ro("created", &HostFile::created, "Whether it was made now.")
        .def_prop_ro(
            "file_bytes", [](const HostFile& self) { return self.shape().file_bytes; },
            "Bytes of the file: pool, page table and what lies between.")
        .def(
            "memory",
            [](const HostFile& self, int threads, bool prefault, std::string_view huge_pages,
               int node, int64_t first_bytes, int64_t step_bytes, bool held) {
                const PreparationOptions preparation{threads, prefault, first_bytes, step_bytes,
                                                     held};
                const MappingOptions mapping{parse_huge_pages(huge_pages), node, threads};
                nb::gil_scoped_release unlocked;
                return new MemoryHandle(self.memory(preparation, mapping));
            },
            nb::kw_only(), "threads"_a = 0, "prefault"_a = true, "huge_pages"_a = "transparent",
            "node"_a = -1, "first_bytes"_a = kPrepareAll, "step_bytes"_a = kPreparedAtOnce,
            "held"_a = false, "The pool's bytes, as HostMemory() makes its; what is in them stays.")
        .def(
            "digests",
            [](const HostFile& self) {
                nb::gil_scoped_release unlocked;
                return new MemoryHandle(self.digests());
            },
            "Memory for the digests of all pages and layers (PageDigests); zeros in a new file.")
        .def_prop_ro("backed", &HostFile::backed,
                     "Whether the file system has every byte of it: none is still to be taken.")
        .def("note_backed", &HostFile::note_backed,
             "All of the pool's bytes have been touched. After close(): nothing.")
        .def("restore", &restore,
             nb::sig("def restore(self) -> tuple[list[bytes], list[tuple[int, int, bytes, int, "
                     "bytes, int, int, int]], typing.Annotated[numpy.typing.NDArray[numpy.int64], "
                     "dict(shape=(None,))], int]"),
             "Called once, before anything is published. The namespaces; the nodes, parents first: "
             "(parent's index or -1, index of the namespace, packed tokens, how many, packed page "
             "ids, priority, when created, when used last); all their pages; how many entries were "
             "damaged. What isn't returned is withdrawn.")
        .def(
            "publish",
            [](HostFile& self, const PageArray& pages, std::optional<int64_t> before,
               const nb::bytes& name_space, const TokenSpan& tokens, int64_t priority) {
                self.table().publish(items(pages), before, bytes_of(name_space), tokens.tokens(),
                                     priority);
            },
            "pages"_a.noconvert(), "before"_a.none(), "namespace"_a, "tokens"_a, "priority"_a,
            "The pages' bytes are whole. before: the page in front of them, None: they are the "
            "first of the namespace. ValueError, nothing published: what doesn't fit.")
        .def(
            "withdraw",
            [](HostFile& self, const PageArray& pages) { self.table().withdraw(items(pages)); },
            "pages"_a.noconvert(), "The pages' bytes may change from now on.")
        .def(
            "set_priority",
            [](HostFile& self, const PageArray& pages, int64_t priority) {
                self.table().set_priority(items(pages), priority);
            },
            "pages"_a.noconvert(), "priority"_a, "Another priority for pages that are published.")
        .def(
            "next_generation", [](HostFile& self) { self.table().next_generation(); },
            "Nothing that was published counts any more: one store.")
        .def(
            "published",
            [](HostFile& self) {
                std::vector<int64_t> pages;
                for (int64_t page = 0; page < self.shape().num_pages; ++page) {
                    if (self.table().published(page)) pages.push_back(page);
                }
                return int64_result(std::move(pages));
            },
            nb::rv_policy::copy, "Every page that is published, ascending.")
        .def("close", &HostFile::close, nb::call_guard<nb::gil_scoped_release>(),
             "Ends ownership; the file stays. Idempotent.");
}

}  // namespace hicache::bindings
