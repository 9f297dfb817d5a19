#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "bindings/bindings.h"
#include "core/errors.h"
#include "transfer/link_curve.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;

using Points = std::vector<std::pair<int64_t, double>>;
using Table = std::map<std::string, std::map<std::string, Points>>;

constexpr std::pair<const char*, CostCurve LinkCosts::*> kOperations[] = {
    {"piece", &LinkCosts::piece},
    {"rectangle", &LinkCosts::rectangle},
    {"kernel", &LinkCosts::kernel},
};

CostCurve curve_of(const Table& table, Direction direction, const char* operation) {
    const auto by_direction = table.find(std::string(name(direction)));
    if (by_direction == table.end() || !by_direction->second.contains(operation)) {
        bad_argument("A link curve needs '", operation, "' of '", name(direction),
                     "': {direction: {operation: [(bytes, seconds), ...]}}.");
    }
    std::vector<CostPoint> points;
    for (const auto& [bytes, seconds] : by_direction->second.at(operation))
        points.push_back({bytes, seconds});
    return CostCurve(std::move(points));
}

LinkCosts costs_of(const Table& table, Direction direction) {
    return {curve_of(table, direction, "piece"), curve_of(table, direction, "rectangle"),
            curve_of(table, direction, "kernel")};
}

Table table_of(const LinkCurve& curve) {
    Table table;
    for (const Direction direction : kDirections) {
        for (const auto& [operation, member] : kOperations) {
            Points& points = table[std::string(name(direction))][operation];
            for (const CostPoint& point : (curve.of(direction).*member).points())
                points.emplace_back(point.bytes, point.seconds);
        }
    }
    return table;
}

}  // namespace

void bind_link(nb::module_& m) {
    nb::class_<LinkCurve>(m, "LinkCurve", "What copies of different sizes cost on one machine.")
        .def(
            "__init__",
            [](LinkCurve* self, const Table& points) {
                new (self) LinkCurve{{costs_of(points, Direction::kHostToDevice),
                                      costs_of(points, Direction::kDeviceToHost)}};
            },
            "points"_a,
            "points: {'h2d' | 'd2h': {'piece' | 'rectangle' | 'kernel': [(bytes, seconds), ...]}}, "
            "sizes rising. piece: one of a batch; rectangle: one 2-D copy; kernel: one layer.")
        .def("points", &table_of, "The points it was made of.")
        .def_static(
            "typical", [] { return *typical_link_curve(); },
            "One H200 on PCIe 5 x16, for whoever has not measured.")
        .def_static(
            "measure",
            [](const std::string& device) {
                nb::gil_scoped_release unlocked;
                return measure_cuda_link(device);
            },
            "device"_a, "Measures 'cuda' or 'cuda:<n>', in less than a second.");
}

}  // namespace hicache::bindings
