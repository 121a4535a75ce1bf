/* A change that throws after its log entry, a replay that throws, and a debug mode that finds a change which a replay makes
 * differently. */
#include "must.hpp"

#include <map>
#include <mutex>

enum class Broken { No, Throws, Differs };

/* Sums by number, under a single guard. */
class Sums final : public ensile::Application {
public:
    std::mutex guard;
    std::map<uint64_t, int64_t> sums;
    Broken broken = Broken::No; /* Fault of the replay of 7. */

    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        std::lock_guard<std::mutex> hold(guard);
        for (auto next = sums.lower_bound(from); next != sums.end(); ++next) {
            if (!out.ckpt(next->first, next->second)) {
                return next->first + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }
    void load_one(uint64_t id, const void *data, size_t size) override {
        std::lock_guard<std::mutex> hold(guard);
        sums[id] = ensile::value_of<int64_t>(data, size);
    }
    void replay_one(uint64_t id, uint32_t, const ensile::Parameters &parameters) override {
        std::lock_guard<std::mutex> hold(guard);
        int64_t by = parameters.get<int64_t>(0);
        if (by == 7 && broken == Broken::Throws) {
            throw std::runtime_error("an unlucky number");
        }
        sums[id] += by + (by == 7 && broken == Broken::Differs);
    }
};

static ensile::Settings on_demand() {
    ensile::Settings settings;
    settings.set(ENSILE_POLICY_ON_DEMAND, 0);
    return settings;
}

static ensile_receipt add(ensile::Objects &objects, Sums &sums, uint64_t id, int64_t by) {
    std::lock_guard<std::mutex> hold(sums.guard);
    return objects.change(id, 0, [&] { sums.sums[id] += by; }, by);
}

/* Logs an addition, and throws in place of the change. */
static void fail_to_add(ensile::Objects &objects, Sums &sums, uint64_t id, int64_t by) {
    std::lock_guard<std::mutex> hold(sums.guard);
    try {
        objects.change(id, 0, [] { throw std::length_error("in mid-change"); }, by);
        MUST(!"it throws");
    } catch (const std::length_error &thrown) {
        MUST(std::string(thrown.what()) == "in mid-change");
    }
}

/* Objects 1 and 2 in a checkpoint, and an addition of 7 to object 1 that was logged and not made. */
static void live(const std::string &folder) {
    Sums sums;
    ensile::Objects objects(folder, sums, on_demand());
    add(objects, sums, 1, 5);
    add(objects, sums, 2, 5);
    MUST(objects.checkpoint().entries == 2);
    fail_to_add(objects, sums, 1, 7);
    MUST(objects.is_poisoned(1) && !objects.is_poisoned(2) && objects.stats().poisoned == 1);
    for (int time = 0; time < 2; time++) {
        FAILS(objects.checkpoint(), ENSILE_CHECKPOINT_FAILED, "object 1 is poisoned: a change of it failed");
        FAILS(objects.log(1, 0, int64_t(1)), ENSILE_POISONED, "object 1 is poisoned: a change of it failed");
        FAILS(add(objects, sums, 1, 1), ENSILE_POISONED, "until the next open");
    }
    objects.durable(add(objects, sums, 2, 1));
}

int main(int, char **arguments) {
    const std::string folder = arguments[1];
    live(folder);
    {
        Sums sums;
        sums.broken = Broken::Throws;
        FAILS(ensile::Objects(folder, sums, on_demand()), ENSILE_NOT_UNDERSTOOD, "an unlucky number");
        Sums poisoned;
        poisoned.broken = Broken::Throws;
        ensile::Objects objects(folder, poisoned, on_demand().set(ENSILE_OPEN_POISONED, 1));
        MUST(objects.is_poisoned(1) && poisoned.sums[2] == 6);
        FAILS(objects.checkpoint(), ENSILE_CHECKPOINT_FAILED, "is not replayed: an unlucky number");
        add(objects, poisoned, 2, 1);
    }
    {
        Sums sums;
        ensile::Objects objects(folder, sums, on_demand());
        MUST(sums.sums[1] == 12 && sums.sums[2] == 7 && objects.stats().poisoned == 0);
        MUST(objects.checkpoint().entries == 2);
        /* A program may see the failure by itself. */
        std::lock_guard<std::mutex> hold(sums.guard);
        objects.log(2, 0, int64_t(1));
        objects.poison(2);
        MUST(objects.is_poisoned(2));
    }
    {
        Sums sums, copy;
        copy.broken = Broken::Differs;
        ensile::Objects objects(folder, sums, copy, on_demand());
        MUST(sums.sums[2] == 8);
        add(objects, sums, 3, 6);
        objects.checkpoint();
        MUST(objects.text(ENSILE_TEXT_DIFFERENCE).empty());
        add(objects, sums, 4, 7);
        add(objects, sums, 5, 7);
        const std::string differs = "object 4 is not what its operations make of it: byte 0";
        FAILS(objects.checkpoint(), ENSILE_CHECKPOINT_FAILED, differs);
        MUST(objects.text(ENSILE_TEXT_DIFFERENCE).find(differs) == 0);
    }
    Sums sums;
    FAILS(ensile::Objects(folder, sums, sums, on_demand()), ENSILE_INVALID, "make a second instance");
    std::printf("all as it must be");
}
