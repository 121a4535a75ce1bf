// Figure 4 of the paper (SLACH), with the guard that the figure leaves out, and with items that come and go: a service of
// up to 1000 items, and four clients of the service.
#include <ensile/objects.hpp>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

struct Item {
    double price;
    int64_t quantity;
};

class MyService final : public ensile::Application {
    static constexpr uint64_t ITEMS = 1000;
    enum : uint32_t { OP_LIST, OP_PRICE, OP_QUANTITY, OP_WITHDRAW }; // operation types

    std::optional<Item> obj_[ITEMS]; // application objects; a number is an index
    std::mutex guard_[ITEMS];        // each with its guard
    ensile::Objects slach_;          // the last member: it calls back while it opens

public:
    explicit MyService(const std::string &folder)
        : slach_(folder, *this, ensile::Settings().set(ENSILE_MARK_LIVES, 1).set(ENSILE_POLICY_LOG_RECORDS, 300)) {}

    // Lists a new item: log, then list. The guard is held over both.
    ensile_receipt list(uint64_t id, const Item &item) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        const ensile_receipt receipt = slach_.log_life(id, ENSILE_LIFE_CREATION, OP_LIST, item);
        obj_[id] = item;
        return receipt;
    }

    // Updates the price of a listed item. A step that can fail comes before the log.
    ensile_receipt update_price(uint64_t id, double price) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        Item &item = listed(id);
        const ensile_receipt receipt = slach_.log(id, OP_PRICE, price);
        item.price = price;
        return receipt;
    }

    ensile_receipt add(uint64_t id, int64_t count) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        Item &item = listed(id);
        const ensile_receipt receipt = slach_.log(id, OP_QUANTITY, count);
        item.quantity += count;
        return receipt;
    }

    // Withdraws a listed item.
    ensile_receipt withdraw(uint64_t id) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        listed(id);
        const ensile_receipt receipt = slach_.log_life(id, ENSILE_LIFE_REMOVAL, OP_WITHDRAW);
        obj_[id].reset();
        return receipt;
    }

    std::optional<Item> item(uint64_t id) {
        std::lock_guard<std::mutex> hold(guard_[id]);
        return obj_[id];
    }

    void durable(ensile_receipt receipt) { slach_.durable(receipt); }
    ensile_checkpoint_report make_checkpoint() { return slach_.checkpoint(); }
    ensile_recovery recovery() { return slach_.recovery(); }

    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        for (uint64_t id = from; id < ITEMS; id++) {
            std::lock_guard<std::mutex> hold(guard_[id]);
            if (obj_[id] && !out.ckpt(id, *obj_[id])) {
                return id + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }

    void load_one(uint64_t id, const void *data, size_t size) override {
        at(id) = ensile::value_of<Item>(data, size);
    }

    // Recovery replays no change and no removal of an item that is not listed.
    void replay_one(uint64_t id, uint32_t operation, const ensile::Parameters &parameters) override {
        switch (operation) {
        case OP_LIST:
            at(id) = parameters.get<Item>(0);
            break;
        case OP_PRICE:
            listed(id).price = parameters.get<double>(0);
            break;
        case OP_QUANTITY:
            listed(id).quantity += parameters.get<int64_t>(0);
            break;
        case OP_WITHDRAW:
            listed(id);
            at(id).reset();
            break;
        default:
            throw std::invalid_argument("no such operation");
        }
    }

private:
    // A number from the folder is checked.
    std::optional<Item> &at(uint64_t id) {
        if (id >= ITEMS) {
            throw std::out_of_range("no such number");
        }
        return obj_[id];
    }

    Item &listed(uint64_t id) {
        if (!at(id)) {
            throw std::out_of_range("no such item");
        }
        return *at(id);
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
        std::printf("loaded %d replayed %d passed %d\n", int(found.checkpoint_entries), int(found.log_entries),
                    int(found.log_entries_passed_over));
        for (uint64_t id = 0; id < 1000; id++) {
            const Item item = service.item(id).value_or(Item{0, 0});
            std::printf("recovered %d %.0f %lld\n", int(id), item.price, (long long)item.quantity);
        }
        std::vector<std::thread> clients;
        for (uint64_t client = 0; client < 4; client++) {
            clients.emplace_back([&service, client, rounds] {
                for (uint64_t round = 0; round < rounds; round++) {
                    const uint64_t id = client * 250 + round % 250;
                    const std::optional<Item> item = service.item(id); // no other client changes it
                    int64_t quantity = item ? item->quantity + 1 : 1;
                    if (!item) {
                        service.durable(service.list(id, {1, 1}));
                    } else if (quantity > 3) {
                        quantity = 0;
                        service.durable(service.withdraw(id));
                    } else {
                        service.update_price(id, double(quantity));
                        service.durable(service.add(id, 1)); // and the price, which was logged before
                    }
                    std::printf("durable %d %lld\n", int(id), (long long)quantity);
                    if (client == 0 && round % 50 == 49) { // beside the checkpoints of the policy
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
