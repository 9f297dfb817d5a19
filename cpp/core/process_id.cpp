#include "core/process_id.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "core/errors.h"

namespace hicache {
namespace {

struct Stat {
    char state = 0;
    uint64_t start = 0;
};

// Of /proc/PID/stat or /proc/PID/task/TID/stat; nothing if there is no such process or thread.
std::optional<Stat> read_stat(const std::string& path) {
    std::ifstream file(path);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = line.rfind(')');  // the name may hold anything
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(line.substr(name_end + 1));
    Stat stat;
    fields >> stat.state;
    std::string skipped;
    for (int field = 4; field < 22; ++field)
        fields >> skipped;
    fields >> stat.start;
    return stat;
}

bool ended(const std::optional<Stat>& stat) {
    return !stat || stat->state == 'Z' || stat->state == 'X';
}

uint64_t own_pid_namespace() {
    struct stat info{};
    return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ProcessId this_process() {
    const auto stat = read_stat("/proc/self/stat");
    return {static_cast<uint64_t>(getpid()), stat ? stat->start : 0, own_pid_namespace()};
}

Presence presence_of(const ProcessId& process) {
    if (process.pid == 0) return Presence::kGone;
    const ProcessId self = this_process();
    if (self.start == 0 || process.start == 0 || process.pid_namespace != self.pid_namespace) {
        return Presence::kUnknown;
    }
    if (process.pid == self.pid) return Presence::kGone;  // its file is closed, or it would be ours
    const std::string folder = message("/proc/", process.pid);
    const auto stat = read_stat(folder + "/stat");
    if (!stat || stat->start != process.start) return Presence::kGone;
    if (!ended(stat)) return Presence::kThere;
    // The first thread has ended; others may still be on their way out.
    const std::string threads = folder + "/task";
    DIR* tasks = opendir(threads.c_str());
    if (tasks == nullptr) return Presence::kGone;
    bool all = true;
    while (const dirent* task = readdir(tasks)) {
        const std::string name = task->d_name;
        if (name[0] != '.') all = all && ended(read_stat(message(threads, '/', name, "/stat")));
    }
    closedir(tasks);
    return all ? Presence::kGone : Presence::kThere;
}

}  // namespace hicache
