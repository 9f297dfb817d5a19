// EXPECT_ERROR(statement, type, text): the statement throws `type` with `text` in its message.
#pragma once

#include <gtest/gtest.h>

#include <string>

#define EXPECT_ERROR(statement, type, text)                                                 \
    try {                                                                                   \
        static_cast<void>(statement);                                                       \
        ADD_FAILURE() << #statement " did not throw";                                       \
    } catch (const type& error) {                                                           \
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); \
    }
