#include "core/host_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/process_id.h"
#include "tests/expect_error.h"

namespace hicache {
namespace {

namespace fs = std::filesystem;

class HostFileTest : public testing::Test {
  protected:
    HostFileTest() {
        std::string name = "/dev/shm/hicache-file-" + std::string(6, 'X');
        folder_ = mkdtemp(name.data());
        path_ = folder_ / "pool";
    }
    ~HostFileTest() override { fs::remove_all(folder_); }

    static FileShape shape(int64_t pages = 6) {
        const PoolFormat format(4, 1, {{"latent", 100, {0}}});
        return {HostLayout(format, "page_first", pages), "a format", 4096};
    }
    [[nodiscard]] HostFile open(int64_t pages = 6) const {
        return {path_, shape(pages), false, 5.0};
    }

    void patch(std::streamoff at, char value) const {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(at).put(value);
    }

    // The file does not fit any more: it is set aside, whole, and an empty one is in its place.
    void expect_set_aside(const std::string& why) {
        const auto size = fs::file_size(path_);
        HostFile file = open();
        EXPECT_TRUE(file.created());
        EXPECT_EQ(file.table().restore().nodes.size(), 0u);
        ASSERT_EQ(file.warnings().size(), 1u);
        EXPECT_NE(file.warnings()[0].find(why), std::string::npos) << file.warnings()[0];
        EXPECT_EQ(fs::file_size(path_ + ".set-aside-1"), size);
        fs::remove(path_ + ".set-aside-1");
    }

    fs::path folder_;
    std::string path_;
};

TEST_F(HostFileTest, KeepsBytesAndPages) {
    const std::vector<int64_t> tokens{1, 2, 3, 4};
    {
        HostFile file = open();
        EXPECT_TRUE(file.created());
        const HostMemory memory = file.memory({.threads = 2}, {});
        EXPECT_EQ(memory.nbytes(), 600);
        std::memset(memory.data() + 300, 0x5A, 100);
        static_cast<void>(file.table().restore());
        file.table().publish(std::vector<int64_t>{3}, std::nullopt, {}, tokens, 0);
    }
    struct stat info{};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_GE(info.st_blocks * 512, info.st_size);  // no hole that a store could meet
    HostFile file = open();
    EXPECT_FALSE(file.created());
    EXPECT_EQ(file.table().restore().tokens, tokens);
    const HostMemory memory = file.memory({.threads = 2}, {});
    EXPECT_EQ(memory.data()[399], std::byte{0x5A});
    EXPECT_EQ(memory.data()[400], std::byte{0});
}

TEST_F(HostFileTest, HasOneOwner) {
    HostFile first = open();
    EXPECT_ERROR(open(), std::runtime_error, "owned by this process");
    const HostMemory memory = first.memory({.threads = 1, .prefault = false}, {});
    first.close();
    EXPECT_ERROR(static_cast<void>(first.table()), std::runtime_error, "closed");
    HostFile second = open();
    EXPECT_EQ(memory.data()[0], std::byte{0});  // still mapped
}

TEST_F(HostFileTest, AChildThatOutlivesItsParentHoldsNothing) {
    int ready[2], end[2];
    ASSERT_EQ(pipe(ready) + pipe(end), 0);
    auto file = std::make_unique<HostFile>(path_, shape(), false, 5.0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        bool refused = false;
        try {
            static_cast<void>(file->table());
        } catch (const std::runtime_error&) {
            refused = true;
        }
        file->close();  // leaves the parent's file alone
        char byte = refused ? 'y' : 'n';
        static_cast<void>(!write(ready[1], &byte, 1) + !read(end[0], &byte, 1));
        _exit(0);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_ERROR(open(), std::runtime_error, "owned by this process");
    file.reset();
    EXPECT_FALSE(open().created());
    ASSERT_EQ(write(end[1], &byte, 1), 1);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    for (const int descriptor : {ready[0], ready[1], end[0], end[1]})
        ::close(descriptor);
}

TEST_F(HostFileTest, SetsAsideWhatDoesNotFit) {
    {
        HostFile file = open(7);
    }
    expect_set_aside("it has 7 pages, wanted are 6");
    patch(9, 2);
    expect_set_aside("version");
    patch(offsetof(FileHeader, num_pages), 5);
    expect_set_aside("its header is damaged");
    patch(offsetof(FileHeader, generation) + 5, 1);
    expect_set_aside("its generation is damaged");
    patch(0, 'X');
    expect_set_aside("it is no host file");
    fs::resize_file(path_, 5000);
    expect_set_aside("it was truncated");
    fs::resize_file(path_, 100);
    expect_set_aside("it is no host file");
    fs::resize_file(path_, 4096);
    fs::resize_file(path_, static_cast<uintmax_t>(shape().file_bytes));
    expect_set_aside("a part was cut out of it");
    std::ofstream(path_, std::ios::trunc) << "something else";
    expect_set_aside("it is no host file");
}

TEST_F(HostFileTest, MakesAnUnfinishedFileAnew) {
    std::ofstream(path_).close();  // killed behind open()
    fs::permissions(path_, fs::perms(0600));
    EXPECT_TRUE(open().created());
    std::ofstream(path_, std::ios::trunc).close();
    fs::resize_file(path_, static_cast<uintmax_t>(shape().file_bytes));  // behind ftruncate()
    EXPECT_TRUE(open().created());
    patch(7, '0');  // before the last store, everything else is there
    HostFile file = open();
    EXPECT_TRUE(file.created());
    EXPECT_TRUE(file.warnings().empty());
}

TEST_F(HostFileTest, RefusesOtherKindsOfFiles) {
    EXPECT_ERROR(HostFile(folder_, shape(), false, 1.0), std::runtime_error, "directory");
    fs::create_symlink(folder_ / "other", path_);
    EXPECT_ERROR(open(), std::runtime_error, "symbolic link");
    fs::remove(path_);
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_ERROR(open(), std::runtime_error, "no regular file");
    fs::remove(path_);
    EXPECT_ERROR(HostFile(folder_ / "none" / "pool", shape(), false, 1.0), std::runtime_error,
                 "No such file");
    EXPECT_ERROR(host_file_block("/proc/self/pool"), std::invalid_argument, "no memory file");
    {
        HostFile file = open();
    }
    fs::permissions(path_, fs::perms(0620));
    EXPECT_ERROR(open(), std::runtime_error, "mode 620");
    fs::permissions(path_, fs::perms(0600));
    EXPECT_FALSE(open().created());
}

TEST_F(HostFileTest, LeavesNothingWhereThereIsNoRoom) {
    const PoolFormat format(4, 1, {{"latent", int64_t{1} << 40, {0}}});
    const FileShape large(HostLayout(format, "page_first", 6), "a format", 4096);
    {
        std::ofstream(path_ + ".set-aside-1") << "kept";
    }
    EXPECT_ERROR(HostFile(path_, large, false, 1.0), std::runtime_error, ".set-aside-1 holds 4096");
    EXPECT_FALSE(fs::exists(path_));
}

TEST_F(HostFileTest, WaitsForItsLastOwnerToBeGone) {
    {
        HostFile file = open();
    }
    int end[2];
    ASSERT_EQ(pipe(end), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        char byte;
        static_cast<void>(!read(end[0], &byte, 1));
        _exit(0);
    }
    // As if the child had owned it and lost its lock, but not yet what it maps.
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string word;
    for (int field = 1; field <= 22; ++field)
        stat >> word;
    FileHeader header{};
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    header.owner_pid = static_cast<uint64_t>(child);
    header.owner_start = std::stoull(word);
    header.owner_pid_namespace = this_process().pid_namespace;
    file.seekp(0).write(reinterpret_cast<const char*>(&header), sizeof header);
    file.close();
    EXPECT_ERROR(HostFile(path_, shape(), false, 0.05), std::runtime_error,
                 "has not ended after 0.05");
    ASSERT_EQ(write(end[1], "x", 1), 1);
    EXPECT_FALSE(HostFile(path_, shape(), false, 30.0).created());  // also while it is a zombie
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    ::close(end[0]);
    ::close(end[1]);
}

}  // namespace
}  // namespace hicache
