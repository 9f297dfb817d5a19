#include "options.h"

#include <algorithm>
#include <array>
#include <cxxopts.hpp>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "core/errors.h"

namespace hicache::bench {
namespace {

constexpr int64_t kPageSize = 64;          // tokens
constexpr int64_t kIndexPageBytes = 8448;  // 64 keys of 128 bytes, then 64 fp32 scales
constexpr std::array<std::pair<std::string_view, int64_t>, 2> kLatentRows{
    {{"fp8_ds_mla", 656}, {"bf16", 1152}}};
constexpr std::array<std::pair<std::string_view, Damage>, 3> kDamages{
    {{"copied", Damage::kCopied}, {"guard", Damage::kGuard}, {"source", Damage::kSource}}};
constexpr int kMaxDefaultWorkers = 4;  // as many as the CPU backend takes by itself
constexpr int kMaxWorkers = 1024;
constexpr int kMaxLayers = 1024;

template <typename Value, size_t N>
const std::pair<std::string_view, Value>& one_of(
    const char* option, const std::string& text,
    const std::array<std::pair<std::string_view, Value>, N>& known) {
    std::string names;
    for (const auto& entry : known) {
        if (entry.first == text) return entry;
        names.append(names.empty() ? "" : ", ").append(entry.first);
    }
    bad_argument("--", option, "=", text, " is unknown; known: ", names, ".");
}

template <typename Number>
Number within(const char* option, Number number, Number least, Number most) {
    if (number < least || number > most) {
        bad_argument("--", option, "=", number, " is outside ", least, " to ", most, ".");
    }
    return number;
}

std::vector<int64_t> numbers_within(const char* option, std::vector<int64_t> numbers,
                                    int64_t most) {
    for (auto it = numbers.begin(); it != numbers.end(); ++it) {
        within<int64_t>(option, *it, 1, most);
        if (std::find(numbers.begin(), it, *it) != it) {
            bad_argument("--", option, " names ", *it, " twice.");
        }
    }
    return numbers;
}

bool on_or_off(const char* option, const std::string& text) {
    if (text != "on" && text != "off") bad_argument("--", option, "=", text, "; use on or off.");
    return text == "on";
}

std::string checked_device(const std::string& device) {
    if (device == "cpu" || device == "cuda") return device;
    bad_argument("--device=", device, " is unknown; known: cpu, cuda.");
}

int default_workers() {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(cores, 1, kMaxDefaultWorkers);
}

std::string command_of(int argc, const char* const* argv) {
    std::string command = "hicache_bench";
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--json") ++i;
        if (argument.starts_with("--json")) continue;
        command.append(" ").append(argument);
    }
    return command;
}

// The value of an option that has one without being given.
template <typename Value>
std::shared_ptr<cxxopts::Value> value(const char* preset) {
    return cxxopts::value<Value>()->default_value(preset);
}

cxxopts::Options described() {
    using Numbers = std::vector<int64_t>;
    cxxopts::Options parser(
        "hicache_bench",
        "Copies pages between a device pool and a host pool, times each copy beside a contiguous\n"
        "one of as many bytes, and compares every byte.\n"
        "Exit 0: all bytes right, 1: failed, 2: bad usage.\n");
    auto add = parser.add_options("");
    add("device", "cpu or cuda", value<std::string>("cpu"));
    add("filter",
        "cases to run: patterns with * and ?, separated by ':', '-' in front of those to leave out",
        value<std::string>("*"));
    add("list", "print the names of the cases that would run");
    add("pages", "pages a copy, a case each", value<Numbers>("512,32,8"));
    add("runs", "neighbouring pages, a case each where they divide the copy",
        value<Numbers>("1,64"));
    add("layers", "layers", value<int>("61"));
    add("kv", "latent rows: fp8_ds_mla (656 bytes) or bf16 (1152)",
        value<std::string>("fp8_ds_mla"));
    add("pool", "pages of each pool", value<int64_t>("1024"));
    add("rounds", "timed rounds, behind one that warms up", value<int>("7"));
    add("blocks", "blocks of the GPU's kernel, 0: chosen", value<int>("0"));
    add("workers", "threads a direction on the CPU, 0: chosen", value<int>("0"));
    add("verify", "on: fill and compare every byte; off: neither, for profilers",
        value<std::string>("on"));
    add("seed", "of the bytes and the page order, 0: a fresh one", value<uint64_t>("0"));
    add("json", "write the report to this file", cxxopts::value<std::string>());
    add("help", "print this");
    parser.add_options("self-test")(
        "self-test-damage",
        "spoil one byte between copy and comparison, which must fail: copied, guard or source",
        cxxopts::value<std::string>());
    return parser;
}

Options checked(const cxxopts::ParseResult& parsed) {
    Options options;
    options.device = checked_device(parsed["device"].as<std::string>());
    options.pool = within<int64_t>("pool", parsed["pool"].as<int64_t>(), 1, int64_t{1} << 31);
    options.pages =
        numbers_within("pages", parsed["pages"].as<std::vector<int64_t>>(), options.pool);
    options.runs = numbers_within("runs", parsed["runs"].as<std::vector<int64_t>>(), options.pool);
    options.layers = within("layers", parsed["layers"].as<int>(), 1, kMaxLayers);
    options.kv = one_of("kv", parsed["kv"].as<std::string>(), kLatentRows).first;
    options.rounds = within("rounds", parsed["rounds"].as<int>(), 1, 1'000'000);
    options.blocks = within("blocks", parsed["blocks"].as<int>(), 0, 1'000'000);
    options.workers = within("workers", parsed["workers"].as<int>(), 0, kMaxWorkers);
    if (options.workers == 0) options.workers = default_workers();
    options.filter = parsed["filter"].as<std::string>();
    options.list = parsed.count("list") > 0;
    options.verify = on_or_off("verify", parsed["verify"].as<std::string>());
    options.seed = parsed["seed"].as<uint64_t>();
    if (options.seed == 0) options.seed = std::random_device{}() | uint64_t{1} << 32;
    if (parsed.count("json") > 0) options.json = parsed["json"].as<std::string>();
    options.damage = Damage::kNone;
    if (parsed.count("self-test-damage") > 0) {
        const auto where = parsed["self-test-damage"].as<std::string>();
        options.damage = one_of("self-test-damage", where, kDamages).second;
        if (!options.verify) {
            bad_argument("--self-test-damage tests the comparison, which --verify=off leaves out.");
        }
    }
    return options;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
    cxxopts::Options parser = described();
    try {
        const cxxopts::ParseResult parsed = parser.parse(argc, argv);
        if (parsed.count("help") > 0) {
            std::cout << parser.help({""});
            return std::nullopt;
        }
        if (!parsed.unmatched().empty()) {
            bad_argument("'", parsed.unmatched().front(), "' is no option.");
        }
        Options options = checked(parsed);
        options.command = command_of(argc, argv);
        return options;
    } catch (const cxxopts::exceptions::exception& error) {
        bad_argument(error.what(), ".");
    }
}

PoolFormat format_of(const Options& options) {
    std::vector<int> layers(static_cast<size_t>(options.layers));
    std::iota(layers.begin(), layers.end(), 0);
    const int64_t row = one_of("kv", options.kv, kLatentRows).second;
    return {kPageSize,
            options.layers,
            {{"latent", kPageSize * row, layers}, {"index_k", kIndexPageBytes, layers}}};
}

}  // namespace hicache::bench
