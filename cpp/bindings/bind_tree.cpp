// The parts of the radix tree that are too slow in Python: the walk down, and the children of a
// node. They work on the nodes of tree/node.py and read the attributes `packed_key`, `start`, `end`
// and `children` of them.
//
// Nothing here takes part in Python's cyclic garbage collection: a table's references to its nodes
// are invisible to it, so that it never walks a large tree. The tree itself cuts the cycles between
// parents and children.
#include <cstring>
#include <utility>

#include "bindings/bindings.h"
#include "core/child_map.h"
#include "core/errors.h"
#include "core/packed_tokens.h"
#include "core/page_keys.h"
#include "core/token_span.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;

// Attribute names, made once.
struct Names {
    PyObject* packed_key = PyUnicode_InternFromString("packed_key");
    PyObject* start = PyUnicode_InternFromString("start");
    PyObject* end = PyUnicode_InternFromString("end");
    PyObject* children = PyUnicode_InternFromString("children");
};

const Names& names() {
    static const Names all;
    return all;
}

nb::object attribute(nb::handle object, PyObject* name) {
    PyObject* value = PyObject_GetAttr(object.ptr(), name);
    if (value == nullptr) nb::raise_python_error();
    return nb::steal(value);
}

int64_t integer(nb::handle object, PyObject* name) {
    const nb::object value = attribute(object, name);
    const Py_ssize_t number = PyLong_AsSsize_t(value.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
    return number;
}

std::span<const std::byte> bytes_of(nb::handle bytes) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) nb::raise_python_error();
    return {reinterpret_cast<const std::byte*>(data), static_cast<size_t>(size)};
}

// A node's key. Keeps the bytes alive.
class NodeKey {
  public:
    NodeKey(nb::handle node, int64_t tokens)
        : bytes_(attribute(node, names().packed_key)), tokens_(bytes_of(bytes_), tokens) {}

    [[nodiscard]] const PackedTokens& tokens() const { return tokens_; }

  private:
    nb::object bytes_;
    PackedTokens tokens_;
};

// ChildMap takes half of the hash.
uint32_t table_hash(uint64_t hash) {
    return static_cast<uint32_t>(hash);
}

uint32_t first_page_hash(nb::handle node, int64_t page_size) {
    const NodeKey key(node, integer(node, names().end) - integer(node, names().start));
    if (page_size < 1 || page_size > key.tokens().size()) {
        bad_argument("A key of ", key.tokens().size(), " tokens has no page of ", page_size, ".");
    }
    return table_hash(key.tokens().hash(page_size));
}

// The children of one node, by the first page of their keys. Owns a reference to each.
class ChildTable {
  public:
    ChildTable() = default;
    ~ChildTable() { clear(); }
    ChildTable(const ChildTable&) = delete;
    ChildTable& operator=(const ChildTable&) = delete;

    void add(nb::handle child, int64_t page_size) {
        map_.add(first_page_hash(child, page_size), child.ptr());
        child.inc_ref();
    }

    void replace(nb::handle child, nb::handle by, int64_t page_size) {
        if (!map_.replace(first_page_hash(child, page_size), child.ptr(), by.ptr())) missing();
        by.inc_ref();
        child.dec_ref();
    }

    void remove(nb::handle child, int64_t page_size) {
        if (!map_.remove(first_page_hash(child, page_size), child.ptr())) missing();
        child.dec_ref();
    }

    [[nodiscard]] bool has(nb::handle child, int64_t page_size) const {
        const auto is_it = [&](void* other) { return other == child.ptr(); };
        return map_.find(first_page_hash(child, page_size), is_it) != nullptr;
    }

    [[nodiscard]] nb::list values() const {
        nb::list result;
        for (void* child : map_.children())
            result.append(nb::handle(static_cast<PyObject*>(child)));
        return result;
    }

    nb::object pop() {
        if (map_.size() == 0) throw nb::index_error("the table is empty");
        return nb::steal(static_cast<PyObject*>(map_.pop()));
    }

    void clear() {
        const std::vector<void*> children = map_.children();
        map_.clear();
        for (void* child : children)
            nb::handle(static_cast<PyObject*>(child)).dec_ref();
    }

    [[nodiscard]] const ChildMap& map() const { return map_; }

  private:
    [[noreturn]] static void missing() {
        throw nb::key_error("the node is not in this table under the first page of its key");
    }

    ChildMap map_;
};

// Nodes that share whole pages with `tokens`, from below `root`, and how many tokens they share.
nb::tuple walk(nb::handle root, const TokenSpan& tokens, int64_t page_size) {
    if (page_size < 1) bad_argument("page_size=", page_size, " must be 1 or more.");
    static const nb::handle table_type = nb::type<ChildTable>();
    const std::span<const int64_t> query = tokens.tokens();
    const auto page = static_cast<size_t>(page_size);
    nb::list path;
    nb::object node = nb::borrow(root);
    size_t at = 0;
    while (query.size() - at >= page) {
        const nb::object children = attribute(node, names().children);
        if (!children.type().is(table_type)) throw nb::type_error("children is no ChildTable");
        const ChildMap& map = nb::inst_ptr<ChildTable>(children)->map();
        if (map.size() == 0) break;
        const std::span<const int64_t> rest = query.subspan(at);
        int64_t length = 0, common = 0;
        const auto shares_a_page = [&](void* child) {
            const nb::handle candidate(static_cast<PyObject*>(child));
            length = integer(candidate, names().end) - static_cast<int64_t>(at);
            common = NodeKey(candidate, length).tokens().common_prefix(rest);
            return common >= page_size;
        };
        void* found = map.find(table_hash(token_hash(rest.first(page))), shares_a_page);
        if (found == nullptr) break;
        node = nb::borrow(static_cast<PyObject*>(found));
        path.append(node);
        at += static_cast<size_t>(common - common % page_size);
        if (common < length) break;
    }
    return nb::make_tuple(std::move(path), at);
}

// Bytes to be written, and where.
std::pair<nb::bytes, std::byte*> new_bytes(size_t size) {
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    if (bytes == nullptr) nb::raise_python_error();
    auto* data = reinterpret_cast<std::byte*>(PyBytes_AsString(bytes));
    return {nb::steal<nb::bytes>(bytes), data};
}

nb::bytes pack(const TokenSpan& tokens) {
    const std::span<const int64_t> values = tokens.tokens();
    auto [narrow, narrow_data] = new_bytes(values.size() * sizeof(int32_t));
    if (pack_narrow(values, narrow_data)) return narrow;
    auto [wide, wide_data] = new_bytes(values.size_bytes());
    pack_wide(values, wide_data);
    return wide;
}

TokenSpan unpack(const nb::bytes& bytes, int64_t tokens) {
    const PackedTokens packed(bytes_of(bytes), tokens);
    auto buffer = std::make_shared<int64_t[]>(static_cast<size_t>(tokens));
    packed.unpack(buffer.get());
    const std::span<const int64_t> values(buffer.get(), static_cast<size_t>(tokens));
    return {values, std::move(buffer)};
}

// Keys that Python keeps: 8 bytes each, as they lie in memory.
uint64_t last_key(const nb::bytes& keys) {
    uint64_t key = 0;
    if (keys.size() < sizeof(key)) bad_argument("There is no key in ", keys.size(), " bytes.");
    std::memcpy(&key, static_cast<const char*>(keys.data()) + keys.size() - sizeof(key),
                sizeof(key));
    return key;
}

nb::bytes namespace_key_of(const nb::bytes& name) {
    const uint64_t key = namespace_key(bytes_of(name));
    return nb::bytes(&key, sizeof(key));
}

template <typename Tokens>
nb::bytes keys_of(const Tokens& tokens, int64_t page_size, const nb::bytes& above) {
    if (page_size < 1) bad_argument("page_size=", page_size, " must be 1 or more.");
    const auto count = static_cast<size_t>(static_cast<int64_t>(tokens.size()) / page_size);
    auto [bytes, data] = new_bytes(count * sizeof(uint64_t));
    const std::span<uint64_t> out(reinterpret_cast<uint64_t*>(data), count);  // 16-byte aligned
    page_keys(tokens, page_size, last_key(above), out);
    return bytes;
}

void untrack(nb::handle object) {
    if (PyObject_GC_IsTracked(object.ptr()) != 0) PyObject_GC_UnTrack(object.ptr());
}

}  // namespace

void bind_tree(nb::module_& m) {
    nb::class_<ChildTable>(m, "ChildTable", "The children of a node, by their key's first page.")
        .def(nb::init<>())
        .def("add", &ChildTable::add, "child"_a, "page_size"_a,
             "Takes in a node that is not there yet.")
        .def("replace", &ChildTable::replace, "child"_a, "by"_a, "page_size"_a,
             "Puts another node with the same first page in the place of a child. KeyError: it is "
             "not there.")
        .def("remove", &ChildTable::remove, "child"_a, "page_size"_a, "KeyError: it is not there.")
        .def("has", &ChildTable::has, "child"_a, "page_size"_a,
             "Whether this very node is there under its first page.")
        .def("values", &ChildTable::values, nb::sig("def values(self) -> list[typing.Any]"),
             "A list of the children, as they were added.")
        .def("pop", &ChildTable::pop, nb::sig("def pop(self) -> typing.Any"),
             "Takes out the child that came last. IndexError: there is none.")
        .def("clear", &ChildTable::clear)
        .def("__len__", [](const ChildTable& self) { return self.map().size(); });

    m.def("walk", &walk, "root"_a, "tokens"_a, "page_size"_a,
          nb::sig("def walk(root: object, tokens: TokenSpan, page_size: int) -> "
                  "tuple[list[typing.Any], int]"),
          "The nodes below root that share whole pages with the tokens, the last one perhaps in "
          "part, and how many tokens they share.");
    m.def("pack_tokens", &pack, "tokens"_a,
          "The tokens as bytes: 4 a token where all fit into int32, else 8.");
    m.def("unpack_tokens", &unpack, "packed"_a, "tokens"_a,
          "The run of so many tokens that pack_tokens packed.");
    m.def("namespace_key", &namespace_key_of, "namespace"_a,
          "Where the chain of page keys of a namespace starts: 8 bytes.");
    m.def(
        "page_keys",
        [](const TokenSpan& tokens, int64_t page_size, const nb::bytes& above) {
            return keys_of(tokens.tokens(), page_size, above);
        },
        "tokens"_a, "page_size"_a, "above"_a,
        "Page keys of the whole pages, 8 bytes each; above: page keys, the last one of which is "
        "that of the page before, or a namespace_key.");
    m.def(
        "packed_page_keys",
        [](const nb::bytes& packed, int64_t tokens, int64_t page_size, const nb::bytes& above) {
            return keys_of(PackedTokens(bytes_of(packed), tokens), page_size, above);
        },
        "packed"_a, "tokens"_a, "page_size"_a, "above"_a,
        "The same of so many tokens that pack_tokens packed.");
    m.def(
        "untrack", &untrack, "object"_a,
        "Hides an object from the cyclic garbage collector, which then neither walks it nor frees "
        "a cycle that it is part of.");
}

}  // namespace hicache::bindings
