/* Figure 4 of the paper (SLACH) in C, with the guard that the figure leaves out, and with items that come and go: a service
 * of up to 1000 items, and four clients of the service. An iterator enumerates the objects. */
#include <ensile/objects.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 1000, OP_LIST = 0, OP_PRICE = 1, OP_QUANTITY = 2, OP_WITHDRAW = 3 };

struct item {
    double price;
    int64_t quantity;
};

struct service {
    struct item obj[ITEMS];       /* application objects; a number is an index */
    bool is_listed[ITEMS];        /* the objects that exist */
    pthread_mutex_t guard[ITEMS]; /* each with its guard */
    ensile_objects *slach;
};

static void fail(const char *what, const ensile_error *error) {
    fprintf(stderr, "%s: %s (%s)\n", what, error->message, ensile_code_name(error->code));
    exit(1);
}

/* Lists a new item: log, then list. The guard is held over both. */
static ensile_receipt list(struct service *service, uint64_t id, const struct item *item) {
    const ensile_bytes parameter = {item, sizeof *item};
    ensile_receipt receipt;
    ensile_error error;
    pthread_mutex_lock(&service->guard[id]);
    if (ensile_objects_log_life(service->slach, id, ENSILE_LIFE_CREATION, OP_LIST, &parameter, 1, &receipt, &error) !=
        ENSILE_OK) {
        fail("a new item", &error);
    }
    service->obj[id] = *item;
    service->is_listed[id] = true;
    pthread_mutex_unlock(&service->guard[id]);
    return receipt;
}

/* Updates the price of a listed item. */
static ensile_receipt update_price(struct service *service, uint64_t id, double price) {
    const ensile_bytes parameter = {&price, sizeof price};
    ensile_receipt receipt;
    ensile_error error;
    pthread_mutex_lock(&service->guard[id]);
    if (ensile_objects_log(service->slach, id, OP_PRICE, &parameter, 1, &receipt, &error) != ENSILE_OK) {
        fail("a price", &error);
    }
    service->obj[id].price = price;
    pthread_mutex_unlock(&service->guard[id]);
    return receipt;
}

static ensile_receipt add(struct service *service, uint64_t id, int64_t count) {
    const ensile_bytes parameter = {&count, sizeof count};
    ensile_receipt receipt;
    ensile_error error;
    pthread_mutex_lock(&service->guard[id]);
    if (ensile_objects_log(service->slach, id, OP_QUANTITY, &parameter, 1, &receipt, &error) != ENSILE_OK) {
        fail("a quantity", &error);
    }
    service->obj[id].quantity += count;
    pthread_mutex_unlock(&service->guard[id]);
    return receipt;
}

/* Withdraws a listed item. */
static ensile_receipt withdraw(struct service *service, uint64_t id) {
    ensile_receipt receipt;
    ensile_error error;
    pthread_mutex_lock(&service->guard[id]);
    if (ensile_objects_log_life(service->slach, id, ENSILE_LIFE_REMOVAL, OP_WITHDRAW, NULL, 0, &receipt, &error) !=
        ENSILE_OK) {
        fail("a withdrawal", &error);
    }
    service->is_listed[id] = false;
    pthread_mutex_unlock(&service->guard[id]);
    return receipt;
}

static int32_t next_object(void *user, uint64_t from, uint64_t *object, ensile_error *why) {
    (void)user, (void)why;
    if (from < ITEMS) {
        *object = from;
    }
    return 0;
}

static int32_t save_one(void *user, uint64_t id, ensile_writer *writer, ensile_error *why) {
    struct service *service = user;
    (void)why;
    pthread_mutex_lock(&service->guard[id]);
    if (service->is_listed[id]) {
        ensile_writer_ckpt(writer, id, &service->obj[id], sizeof service->obj[id]);
    }
    pthread_mutex_unlock(&service->guard[id]);
    return 0;
}

static int32_t load_one(void *user, uint64_t id, ensile_bytes bytes, ensile_error *why) {
    struct service *service = user;
    if (id >= ITEMS || bytes.size != sizeof service->obj[id]) {
        snprintf(why->message, sizeof why->message, "an item of another program");
        return 1;
    }
    memcpy(&service->obj[id], bytes.data, bytes.size);
    service->is_listed[id] = true;
    return 0;
}

/* Recovery replays no change and no removal of an item that is not listed. */
static int32_t replay_one(void *user, uint64_t id, uint32_t operation, const ensile_bytes *parameters, size_t count,
                          ensile_error *why) {
    struct service *service = user;
    int64_t quantity;
    if (operation == OP_LIST && count == 1) {
        return load_one(user, id, parameters[0], why);
    }
    if (id < ITEMS && service->is_listed[id] && count == 0 && operation == OP_WITHDRAW) {
        service->is_listed[id] = false;
        return 0;
    }
    if (id < ITEMS && service->is_listed[id] && count == 1 && parameters[0].size == 8) {
        switch (operation) {
        case OP_PRICE:
            memcpy(&service->obj[id].price, parameters[0].data, 8);
            return 0;
        case OP_QUANTITY:
            memcpy(&quantity, parameters[0].data, 8);
            service->obj[id].quantity += quantity;
            return 0;
        }
    }
    snprintf(why->message, sizeof why->message, "no such item, or no such operation");
    return 1;
}

static void open_service(struct service *service, const char *folder) {
    const ensile_application application = {.abi_version = ENSILE_ABI_VERSION,
                                            .user = service,
                                            .load_one = load_one,
                                            .replay_one = replay_one,
                                            .next_object = next_object,
                                            .save_one = save_one};
    ensile_settings *settings;
    ensile_error error;
    for (int id = 0; id < ITEMS; id++) {
        pthread_mutex_init(&service->guard[id], NULL);
    }
    if (ensile_settings_new(&settings, &error) != ENSILE_OK ||
        ensile_settings_set(settings, ENSILE_MARK_LIVES, 1, &error) != ENSILE_OK ||
        ensile_settings_set(settings, ENSILE_POLICY_LOG_RECORDS, 300, &error) != ENSILE_OK ||
        ensile_objects_open(folder, settings, &application, &service->slach, &error) != ENSILE_OK) {
        fail("open", &error);
    }
    ensile_settings_free(settings, NULL);
}

struct client {
    struct service *service;
    uint64_t number, rounds;
};

static void *serve(void *argument) {
    const struct client *client = argument;
    struct service *service = client->service;
    ensile_error error;
    for (uint64_t round = 0; round < client->rounds; round++) {
        const uint64_t id = client->number * 250 + round % 250;
        const struct item first = {1, 1};
        int64_t quantity = 1;
        ensile_receipt receipt;
        if (!service->is_listed[id]) { /* no other client changes it */
            receipt = list(service, id, &first);
        } else if (service->obj[id].quantity == 3) {
            quantity = 0;
            receipt = withdraw(service, id);
        } else {
            quantity += service->obj[id].quantity;
            update_price(service, id, (double)quantity);
            receipt = add(service, id, 1); /* of the price, too, which was logged before */
        }
        if (ensile_objects_durable(service->slach, receipt, &error) != ENSILE_OK) {
            fail("durable", &error);
        }
        printf("durable %d %" PRId64 "\n", (int)id, quantity);
        if (client->number == 0 && round % 50 == 49) { /* beside the checkpoints of the policy */
            ensile_checkpoint_report report;
            if (ensile_objects_checkpoint(service->slach, &report, sizeof report, &error) != ENSILE_OK) {
                fail("checkpoint", &error);
            }
            printf("checkpoint %d\n", (int)report.number);
        }
    }
    return NULL;
}

/* Runs until it is killed, or for a number of rounds. */
int main(int count, char **arguments) {
    static struct service service;
    struct client clients[4];
    pthread_t threads[4];
    ensile_recovery found;
    ensile_error error;
    if (count < 2) {
        fprintf(stderr, "usage: %s FOLDER [ROUNDS]\n", arguments[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    open_service(&service, arguments[1]);
    if (ensile_objects_recovery(service.slach, &found, sizeof found, &error) != ENSILE_OK) {
        fail("recovery", &error);
    }
    printf("loaded %d replayed %d passed %d\n", (int)found.checkpoint_entries, (int)found.log_entries,
           (int)found.log_entries_passed_over);
    for (int id = 0; id < ITEMS; id++) {
        const struct item none = {0, 0}, item = service.is_listed[id] ? service.obj[id] : none;
        printf("recovered %d %.0f %" PRId64 "\n", id, item.price, item.quantity);
    }
    for (int number = 0; number < 4; number++) {
        clients[number].service = &service;
        clients[number].number = (uint64_t)number;
        clients[number].rounds = count > 2 ? strtoull(arguments[2], NULL, 10) : UINT64_MAX;
        pthread_create(&threads[number], NULL, serve, &clients[number]);
    }
    for (int number = 0; number < 4; number++) {
        pthread_join(threads[number], NULL);
    }
    if (ensile_objects_free(service.slach, &error) != ENSILE_OK) {
        fail("close", &error);
    }
    return 0;
}
