#include <nanobind/operators.h>

#include <cstring>

#include "bindings/bindings.h"
#include "core/errors.h"
#include "core/page_hash.h"
#include "core/token_span.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;
using HashResult = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>;

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

// A view that keeps the array alive. The last copy may be dropped on any thread.
TokenSpan view_of(const PageArray& array) {
    auto held = std::shared_ptr<const PageArray>(new PageArray(array), [](const PageArray* p) {
        nb::gil_scoped_acquire locked;
        delete p;
    });
    return {items(array), std::move(held)};
}

nb::bytes seed_of(const nb::bytes& format_name, const nb::bytes& extra_key) {
    const Digest seed = namespace_seed(bytes_of(format_name), bytes_of(extra_key));
    return nb::bytes(seed.data(), seed.size());
}

HashResult hashes_of(std::span<const int64_t> tokens, int64_t page_size, const nb::bytes& seed) {
    Digest start;
    if (seed.size() != start.size()) {
        bad_argument("The seed has ", seed.size(), " bytes; a namespace_seed() has ", start.size(),
                     ".");
    }
    std::memcpy(start.data(), seed.data(), start.size());
    auto* held = new std::vector<Digest>;
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<Digest>*>(p); });
    {
        nb::gil_scoped_release unlocked;
        *held = page_hashes(tokens, page_size, start);
    }
    return HashResult(held->data(), {held->size(), start.size()}, owner);
}

}  // namespace

void bind_tokens(nb::module_& m) {
    nb::class_<TokenSpan>(m, "TokenSpan", "An immutable run of int64 token ids.")
        .def(
            "__init__",
            [](TokenSpan* self, const PageArray& tokens) { new (self) TokenSpan(view_of(tokens)); },
            "tokens"_a.noconvert(),
            "A view of the array, which must not be changed afterwards; copy() detaches.")
        .def("copy", &TokenSpan::copy, "The same tokens in a buffer of their own.")
        .def("slice", &TokenSpan::slice, "begin"_a, "end"_a,
             "Tokens [begin, end), sharing the buffer.")
        .def("__len__", &TokenSpan::size)
        .def(
            "numpy",
            [](const TokenSpan& self) {
                return int64_result({self.tokens().begin(), self.tokens().end()});
            },
            nb::rv_policy::copy, "The tokens as a fresh int64 array.")
        .def(
            "common_prefix",
            [](const TokenSpan& self, const TokenSpan& other, int64_t offset) {
                return self.common_prefix(other.tokens(), offset);
            },
            "other"_a, "offset"_a = 0,
            "How many leading tokens of self[offset:] and other are equal.")
        .def("__hash__",
             [](const TokenSpan& self) { return static_cast<Py_ssize_t>(self.hash() >> 1); })
        .def(
            "__eq__", [](const TokenSpan& a, const TokenSpan& b) { return a == b; },
            nb::is_operator(), nb::sig("def __eq__(self, arg: object, /) -> bool"))
        .def_prop_ro("buffer_tokens", &TokenSpan::buffer_tokens,
                     "Tokens in the buffer that this run keeps alive.")
        .def_prop_ro(
            "shares_buffer_bytes",
            [](const TokenSpan& self) {
                return self.buffer_tokens() * static_cast<int64_t>(sizeof(int64_t));
            },
            "Bytes of that buffer.");

    m.def("namespace_seed", &seed_of, "format_name"_a, "extra_key"_a,
          "Start of the hash chain of one namespace: BLAKE2b-128, 16 bytes.");
    const char* hashes_doc =
        "Chained BLAKE2b-128 digest of each whole page: uint8 array [pages, 16].";
    m.def(
        "page_hashes",
        [](const TokenSpan& tokens, int64_t page_size, const nb::bytes& seed) {
            return hashes_of(tokens.tokens(), page_size, seed);
        },
        "tokens"_a, "page_size"_a, "seed"_a, nb::rv_policy::copy, hashes_doc);
    m.def(
        "page_hashes",
        [](const PageArray& tokens, int64_t page_size, const nb::bytes& seed) {
            return hashes_of(items(tokens), page_size, seed);
        },
        "tokens"_a.noconvert(), "page_size"_a, "seed"_a, nb::rv_policy::copy, hashes_doc);
}

}  // namespace hicache::bindings
