// Picks cases by name, as --gtest_filter picks tests.
//
// Patterns are separated by ':'; those behind the first '-' take names out again. '*' stands for
// any characters, '?' for one. Nothing in front of '-' means all names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hicache::bench {

class NameFilter {
  public:
    explicit NameFilter(std::string_view text);

    [[nodiscard]] bool matches(std::string_view name) const;

  private:
    std::vector<std::string> wanted_;
    std::vector<std::string> unwanted_;
};

// Whether the whole name is what the pattern describes.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace hicache::bench
