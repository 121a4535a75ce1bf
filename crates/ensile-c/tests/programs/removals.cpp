/* An object that is removed between the beginning of a checkpoint and its walk. The checkpoint lacks the object, and the log
 * has operations from before the removal. The call-backs throw at an unknown object. */
#include "must.hpp"

#include <future>
#include <map>
#include <mutex>

#include <unistd.h>

class Counters final : public ensile::Application {
public:
    enum : uint32_t { MAKE, ADD, REMOVE };
    std::mutex guard;
    std::map<uint64_t, uint64_t> counters;
    bool waits = false; /* The next walk waits for `go_on`. */
    std::promise<void> walks, go_on;

    void change(uint64_t id, uint32_t operation, uint64_t by) {
        if (operation == MAKE) {
            counters[id] = by;
        } else if (counters.count(id) == 0) {
            throw std::out_of_range("no such counter");
        } else if (operation == ADD) {
            counters[id] += by;
        } else {
            counters.erase(id);
        }
    }
    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        if (waits) {
            waits = false;
            walks.set_value();
            go_on.get_future().wait();
        }
        std::lock_guard<std::mutex> hold(guard);
        for (auto next = counters.lower_bound(from); next != counters.end(); ++next) {
            if (!out.ckpt(next->first, next->second)) {
                return next->first + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }
    void load_one(uint64_t id, const void *data, size_t size) override {
        std::lock_guard<std::mutex> hold(guard);
        counters[id] = ensile::value_of<uint64_t>(data, size);
    }
    void replay_one(uint64_t id, uint32_t operation, const ensile::Parameters &parameters) override {
        std::lock_guard<std::mutex> hold(guard);
        change(id, operation, parameters.get<uint64_t>(0));
    }
};

static ensile::Settings settings(bool marks) {
    ensile::Settings settings;
    settings.set(ENSILE_POLICY_ON_DEMAND, 0).set(ENSILE_MARK_LIVES, marks);
    return settings;
}

/* Logs and makes an operation, with its mark or without marks. */
static void change(ensile::Objects &objects, Counters &counters, bool marks, uint64_t id, uint32_t operation, uint64_t by) {
    const ensile_life lives[] = {ENSILE_LIFE_CREATION, ENSILE_LIFE_CHANGE, ENSILE_LIFE_REMOVAL};
    std::lock_guard<std::mutex> hold(counters.guard);
    if (marks && operation == Counters::MAKE) {
        objects.change_life(id, lives[operation], operation, [&] { counters.change(id, operation, by); }, by);
        return;
    }
    if (marks && operation == Counters::REMOVE) {
        objects.log_life(id, lives[operation], operation, by);
    } else {
        objects.log(id, operation, by);
    }
    counters.change(id, operation, by);
}

static void live(const std::string &folder, bool marks) {
    Counters counters;
    ensile::Objects objects(folder, counters, settings(marks));
    change(objects, counters, marks, 1, Counters::MAKE, 5);
    change(objects, counters, marks, 2, Counters::MAKE, 6);
    /* The checkpoint begins in a later epoch: its log begins after the creations. */
    objects.durable({objects.stats().epoch});
    counters.waits = true;
    objects.ask_checkpoint();
    counters.walks.get_future().wait();
    change(objects, counters, marks, 1, Counters::ADD, 7);
    change(objects, counters, marks, 1, Counters::REMOVE, 0);
    counters.go_on.set_value();
    while (objects.stats().checkpoints == 0) {
        usleep(500);
    }
}

int main(int, char **arguments) {
    const std::string folder = arguments[1];
    live(folder + ".unmarked", false);
    Counters unmarked;
    FAILS(ensile::Objects(folder + ".unmarked", unmarked, settings(false)), ENSILE_NOT_UNDERSTOOD, "no such counter");

    live(folder, true);
    for (int life = 0; life < 2; life++) {
        Counters counters;
        ensile::Objects objects(folder, counters, settings(true));
        MUST((counters.counters == std::map<uint64_t, uint64_t>{{2, 6}}));
        MUST(objects.recovery().log_entries == 2 && objects.recovery().log_entries_passed_over == 2);
        FAILS(objects.log_life(1, 9, 0), ENSILE_INVALID, "no ENSILE_LIFE_..");
    }
    Counters counters;
    ensile::Objects objects(folder + ".plain", counters, settings(false));
    FAILS(objects.log_life(1, ENSILE_LIFE_CREATION, 0), ENSILE_INVALID, "in C: mark_lives is ENSILE_MARK_LIVES");
    std::printf("all as it must be");
}
