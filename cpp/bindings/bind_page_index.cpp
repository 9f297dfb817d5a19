#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <limits>

#include "bindings/bindings.h"
#include "core/errors.h"
#include "core/page_index.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;
using StateArray = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

[[noreturn]] void refuse_type(const std::string& what, nb::handle value) {
    throw nb::type_error(message(what, ", got ", nb::type_name(value.type()).c_str()).c_str());
}

// name: of the argument, for messages.
Key key_of(PyObject* object, const char* name, Py_ssize_t position = -1) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    const bool text = PyUnicode_Check(object);
    const auto place = [&] {
        return position < 0 ? std::string(name) : message(name, "[", position, "]");
    };
    if (text) {
        bytes = const_cast<char*>(PyUnicode_AsUTF8AndSize(object, &size));
        if (bytes == nullptr) throw nb::python_error();
    } else if (!PyBytes_Check(object)) {
        refuse_type(place() + " must be bytes or str", object);
    } else if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) {
        throw nb::python_error();
    }
    if (size < 1 || static_cast<size_t>(size) > kMaxKeyBytes) {
        bad_argument(place(), " has ", size, " bytes; a key has 1 to ", kMaxKeyBytes,
                     ": hash longer names first.");
    }
    return Key({bytes, static_cast<size_t>(size)}, text);
}

// The keys of a Python sequence, as views of its items. All of them are checked and Python code is
// done before the index is asked for anything; the GIL is held until the call's end.
class Keys {
  public:
    explicit Keys(nb::handle keys) {
        if (PyUnicode_Check(keys.ptr()) || PyBytes_Check(keys.ptr()))
            refuse_type("keys must be a sequence of bytes or str, not one of them", keys);
        items_ = nb::steal(PySequence_Fast(keys.ptr(), ""));
        if (!items_.is_valid()) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
            PyErr_Clear();
            refuse_type("keys must be a sequence of bytes or str", keys);
        }
        const bool list = PyList_Check(items_.ptr());
        const Py_ssize_t size = PySequence_Size(items_.ptr());
        keys_.reserve(static_cast<size_t>(size));
        for (Py_ssize_t i = 0; i < size; ++i) {
            PyObject* item =
                list ? PyList_GetItem(items_.ptr(), i) : PyTuple_GetItem(items_.ptr(), i);
            keys_.push_back(key_of(item, "keys", i));
        }
    }

    [[nodiscard]] std::span<const Key> view() const { return keys_; }
    [[nodiscard]] nb::object object(size_t position) const { return items_[position]; }

  private:
    nb::object items_;
    std::vector<Key> keys_;
};

// As it was given when it was stored: bytes or str.
nb::object python_key(const StoredKey& stored) {
    const auto bytes = stored.key().bytes();
    if (!stored.key().text()) return nb::bytes(bytes.data(), bytes.size());
    return nb::str(bytes.data(), bytes.size());
}

nb::list python_keys(const std::vector<StoredKey>& stored) {
    nb::list keys;
    for (const StoredKey& key : stored)
        keys.append(python_key(key));
    return keys;
}

StateArray lookup(const PageIndex& self, nb::handle keys) {
    const Keys wanted(keys);
    auto* held = new std::vector<uint8_t>(wanted.view().size());
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
    self.lookup(wanted.view(), {reinterpret_cast<KeyState*>(held->data()), held->size()});
    return StateArray(held->data(), {held->size()}, owner);
}

Int64Result pin(PageIndex& self, nb::handle keys) {
    const Keys wanted(keys);
    try {
        return int64_result(self.pin(wanted.view()));
    } catch (const std::out_of_range& error) {
        throw nb::key_error(error.what());
    }
}

nb::object begin_store(PageIndex& self, nb::handle keys, nb::handle parent, int64_t priority) {
    const Keys wanted(keys);
    std::optional<Key> above;
    if (!parent.is_none()) above = key_of(parent.ptr(), "parent");
    using Limits = std::numeric_limits<int32_t>;
    if (priority < Limits::min() || priority > Limits::max()) {
        bad_argument("priority is ", priority, "; it must be between ", Limits::min(), " and ",
                     Limits::max(), ".");
    }
    auto store =
        self.begin_store(wanted.view(), above ? &*above : nullptr, static_cast<int32_t>(priority));
    if (!store) return nb::none();
    nb::list stored;
    for (const size_t position : store->positions)
        stored.append(wanted.object(position));
    const auto pages = nb::cast(int64_result(std::move(store->pages)), nb::rv_policy::copy);
    return nb::make_tuple(stored, pages, python_keys(store->evicted));
}

nb::dict counts(const PageIndex& self) {
    const IndexCounts counts = self.counts();
    nb::dict named;
    named["total_pages"] = self.pages().total_pages();
    named["free_pages"] = self.pages().free_pages();
    named["hit_pages"] = counts.hit;
    named["pending_pages"] = counts.pending;
    named["withheld_pages"] = counts.withheld;
    named["pinned_pages"] = counts.pinned;
    named["free_extents"] = self.pages().num_extents();
    named["largest_free_extent"] = self.pages().largest_extent();
    named["evicted_keys"] = counts.evicted;
    named["failed_keys"] = counts.failed;
    named["left_out_keys"] = counts.left_out;
    return named;
}

}  // namespace

void bind_page_index(nb::module_& m) {
    m.def("eviction_policies", &eviction_policies,
          "The names that PageIndex knows, comma-separated.");
    nb::class_<PageIndex>(m, "PageIndex", "Keys to pages; hicache_nsa.PageIndex documents it.")
        .def(nb::init<int64_t, std::string_view>(), "pages"_a, "policy"_a)
        .def("lookup", &lookup, "keys"_a.none(), nb::rv_policy::copy,
             "uint8 a key: 0 miss, 1 pending, 2 hit.")
        .def(
            "prefix",
            [](const PageIndex& self, nb::handle keys) { return self.prefix(Keys(keys).view()); },
            "keys"_a.none(), "How many of the first keys are hits.")
        .def("pin", &pin, "keys"_a.none(), nb::rv_policy::copy,
             "The pages; KeyError that names a key which is no hit.")
        .def(
            "unpin", [](PageIndex& self, nb::handle keys) { self.unpin(Keys(keys).view()); },
            "keys"_a.none(), "ValueError, nothing unpinned: a key with too few pins.")
        .def(
            "touch", [](PageIndex& self, nb::handle keys) { self.touch(Keys(keys).view()); },
            "keys"_a.none())
        .def("begin_store", &begin_store, "keys"_a.none(), "parent"_a.none(), "priority"_a,
             nb::sig("def begin_store(self, keys: object, parent: bytes | str | None, "
                     "priority: int) -> tuple[list[bytes | str], "
                     "Annotated[NDArray[numpy.int64], dict(shape=(None,))], "
                     "list[bytes | str]] | None"),
             "Keys to be stored, their pages, keys evicted for them; None: no room.")
        .def(
            "finish_store",
            [](PageIndex& self, nb::handle keys, bool success) {
                return python_keys(self.finish_store(Keys(keys).view(), success));
            },
            "keys"_a.none(), "success"_a,
            nb::sig("def finish_store(self, keys: object, success: bool) -> list[bytes | str]"),
            "The keys that are misses by it.")
        .def("reset", &PageIndex::reset, "Drops everything; how many keys that were.")
        .def("counts", &counts, nb::sig("def counts(self) -> dict[str, int]"))
        .def("__len__",
             [](const PageIndex& self) { return self.counts().hit + self.counts().pending; })
        .def("check", &PageIndex::check,
             "RuntimeError with both sides of an equation that does not hold.");
}

}  // namespace hicache::bindings
