#include "name_filter.h"

#include <algorithm>

namespace hicache::bench {
namespace {

std::vector<std::string> patterns_of(std::string_view text) {
    std::vector<std::string> patterns;
    while (!text.empty()) {
        const size_t end = std::min(text.find(':'), text.size());
        if (end > 0) patterns.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return patterns;
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
    return std::any_of(patterns.begin(), patterns.end(), [name](const std::string& pattern) {
        return matches_pattern(pattern, name);
    });
}

}  // namespace

NameFilter::NameFilter(std::string_view text) {
    const size_t minus = text.find('-');
    wanted_ = patterns_of(text.substr(0, minus));
    if (minus == std::string_view::npos) return;
    unwanted_ = patterns_of(text.substr(minus + 1));
    if (minus == 0) wanted_.emplace_back("*");
}

bool NameFilter::matches(std::string_view name) const {
    return any_matches(wanted_, name) && !any_matches(unwanted_, name);
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
    size_t p = 0, n = 0;
    size_t star = std::string_view::npos, taken = 0;  // the last '*', and where it stopped in name
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            taken = n;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++taken;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace hicache::bench
