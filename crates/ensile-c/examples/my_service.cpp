// Figure 4 of the paper (SLACH), with the guard that it leaves out: a service of 1000 items, and four clients of it.
#include <ensile/objects.hpp>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

struct Item {
    double price;
    int64_t quantity;
};

class MyService final : public ensile::Application {
    static constexpr uint64_t ITEMS = 1000;
    static constexpr uint32_t OP_PRICE = 0, OP_QUANTITY = 1; // operation types

    Item obj_[ITEMS] = {};    // application objects; a number is an index
    std::mutex guard_[ITEMS]; // each with its guard
    ensile::Objects slach_;   // the last member: it calls back while it opens

public:
    explicit MyService(const std::string &folder)
        : slach_(folder, *this, ensile::Settings().set(ENSILE_POLICY_LOG_RECORDS, 300)) {}

    // Update an item's price: log, then update. The guard is held over both.
    ensile_receipt update_price(uint64_t id, double price) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        const ensile_receipt receipt = slach_.log(id, OP_PRICE, price);
        obj_[id].price = price;
        return receipt;
    }

    ensile_receipt add(uint64_t id, int64_t count) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        const ensile_receipt receipt = slach_.log(id, OP_QUANTITY, count);
        obj_[id].quantity += count;
        return receipt;
    }

    Item item(uint64_t id) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        return obj_[id];
    }

    void durable(ensile_receipt receipt) { slach_.durable(receipt); }
    ensile_checkpoint_report make_checkpoint() { return slach_.checkpoint(); }
    ensile_recovery recovery() { return slach_.recovery(); }

    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        for (uint64_t id = from; id < ITEMS; id++) {
            std::lock_guard<std::mutex> hold(guard_[id]);
            if (!out.ckpt(id, obj_[id])) {
                return id + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }

    void load_one(uint64_t id, const void *data, size_t size) override {
        at(id) = ensile::value_of<Item>(data, size);
    }

    void replay_one(uint64_t id, uint32_t operation, const ensile::Parameters &parameters) override {
        switch (operation) {
        case OP_PRICE:
            at(id).price = parameters.get<double>(0);
            break;
        case OP_QUANTITY:
            at(id).quantity += parameters.get<int64_t>(0);
            break;
        default:
            throw std::invalid_argument("no such operation");
        }
    }

private:
    // What the folder says is checked.
    Item &at(uint64_t id) {
        if (id >= ITEMS) {
            throw std::out_of_range("no such item");
        }
        return obj_[id];
    }
};

// Runs until it is killed, or for a number of rounds.
int main(int count, char **arguments) {
    if (count < 2) {
        return std::fprintf(stderr, "usage: %s FOLDER [ROUNDS]\n", arguments[0]), 2;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    const uint64_t rounds = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : UINT64_MAX;
    try {
        MyService service(arguments[1]);
        const ensile_recovery found = service.recovery();
        std::printf("loaded %d replayed %d\n", int(found.checkpoint_entries), int(found.log_entries));
        for (uint64_t id = 0; id < 1000; id++) {
            const Item item = service.item(id);
            std::printf("recovered %d %.0f %lld\n", int(id), item.price, (long long)item.quantity);
        }
        std::vector<std::thread> clients;
        for (uint64_t client = 0; client < 4; client++) {
            clients.emplace_back([&service, client, rounds] {
                for (uint64_t round = 0; round < rounds; round++) {
                    const uint64_t id = client * 250 + round % 250;
                    const int64_t quantity = service.item(id).quantity + 1;
                    service.update_price(id, double(quantity));
                    service.durable(service.add(id, 1)); // and with it what was logged before
                    std::printf("durable %d %lld\n", int(id), (long long)quantity);
                    if (client == 0 && round % 50 == 49) { // beside those of the policy
                        std::printf("checkpoint %d\n", int(service.make_checkpoint().number));
                    }
                }
            });
        }
        for (std::thread &client : clients) {
            client.join();
        }
    } catch (const std::exception &failure) {
        return std::fprintf(stderr, "%s\n", failure.what()), 1;
    }
    return 0;
}
