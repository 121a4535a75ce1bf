/* Counters that are not waited for, in a folder that survives the process: `process_safe FOLDER` prints each addition once
 * it is logged and made, in the words of the service. */
#include <ensile/objects.hpp>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

class Counters final : public ensile::Application {
    static constexpr uint64_t COUNTERS = 4;
    uint64_t counters_[COUNTERS] = {};
    std::mutex guard_[COUNTERS];
    ensile::Objects objects_;

public:
    explicit Counters(const std::string &folder)
        : objects_(folder, *this, ensile::Settings().set(ENSILE_PROCESS_SAFE, 1).set(ENSILE_POLICY_LOG_RECORDS, 500)) {}
    ensile_recovery recovery() { return objects_.recovery(); }
    uint64_t add(uint64_t id) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        objects_.log(id, 0, uint64_t(1));
        return counters_[id] += 1;
    }
    uint64_t at(uint64_t id) { return counters_[id]; }

    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        for (uint64_t id = from; id < COUNTERS; id++) {
            std::lock_guard<std::mutex> hold(guard_[id]);
            if (!out.ckpt(id, counters_[id])) {
                return id + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }
    void load_one(uint64_t id, const void *data, size_t size) override {
        counters_[id] = ensile::value_of<uint64_t>(data, size);
    }
    void replay_one(uint64_t id, uint32_t, const ensile::Parameters &parameters) override {
        counters_[id] += parameters.get<uint64_t>(0);
    }
};

int main(int, char **arguments) {
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    Counters counters(arguments[1]);
    const ensile_recovery found = counters.recovery();
    std::printf("loaded %d replayed %d passed %d\n", int(found.checkpoint_entries), int(found.log_entries),
                int(found.log_entries_passed_over));
    for (uint64_t id = 0; id < 4; id++) {
        const unsigned long long counter = counters.at(id);
        std::printf("recovered %d %llu %llu\n", int(id), counter, counter);
    }
    std::vector<std::thread> clients;
    for (uint64_t id = 0; id < 4; id++) {
        clients.emplace_back([&counters, id] {
            for (;;) {
                std::printf("durable %d %llu\n", int(id), static_cast<unsigned long long>(counters.add(id)));
            }
        });
    }
    for (std::thread &client : clients) {
        client.join();
    }
}
