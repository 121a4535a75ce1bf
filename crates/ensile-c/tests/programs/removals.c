/* An object that is removed between the beginning of a checkpoint and its walk. The checkpoint lacks the object, and the log
 * has operations from before the removal. The call-backs fail at an unknown object. */
#include <ensile/objects.h>

#include "must.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { COUNTERS = 3, MAKE = 0, ADD = 1, REMOVE = 2 };
enum turn { NO_TURN, WAITED_FOR, WALKS, GOES_ON };

struct counters {
    pthread_mutex_t guard;
    bool exists[COUNTERS];
    uint64_t counters[COUNTERS];
    pthread_mutex_t turns;
    pthread_cond_t next_turn;
    enum turn turn;
    ensile_objects *objects;
};

static void take_turn(struct counters *counters, enum turn from, enum turn to) {
    pthread_mutex_lock(&counters->turns);
    while (counters->turn != from) {
        pthread_cond_wait(&counters->next_turn, &counters->turns);
    }
    counters->turn = to;
    pthread_cond_broadcast(&counters->next_turn);
    pthread_mutex_unlock(&counters->turns);
}

static int32_t change(struct counters *counters, uint64_t id, uint32_t operation, uint64_t by) {
    if (operation != MAKE && !counters->exists[id]) {
        return 1;
    }
    counters->counters[id] = operation == MAKE ? by : counters->counters[id] + by;
    counters->exists[id] = operation != REMOVE;
    return 0;
}

static int32_t next_object(void *user, uint64_t from, uint64_t *object, ensile_error *why) {
    struct counters *counters = user;
    (void)why;
    pthread_mutex_lock(&counters->turns);
    const bool waits = counters->turn == WAITED_FOR;
    pthread_mutex_unlock(&counters->turns);
    if (waits) {
        take_turn(counters, WAITED_FOR, WALKS);
        take_turn(counters, GOES_ON, NO_TURN);
    }
    if (from < COUNTERS) {
        *object = from;
    }
    return 0;
}

static int32_t save_one(void *user, uint64_t id, ensile_writer *writer, ensile_error *why) {
    struct counters *counters = user;
    (void)why;
    pthread_mutex_lock(&counters->guard);
    if (counters->exists[id]) {
        ensile_writer_ckpt(writer, id, &counters->counters[id], sizeof counters->counters[id]);
    }
    pthread_mutex_unlock(&counters->guard);
    return 0;
}

static int32_t load_one(void *user, uint64_t id, ensile_bytes bytes, ensile_error *why) {
    struct counters *counters = user;
    (void)why;
    memcpy(&counters->counters[id], bytes.data, bytes.size);
    counters->exists[id] = true;
    return 0;
}

static int32_t replay_one(void *user, uint64_t id, uint32_t operation, const ensile_bytes *parameters, size_t count,
                          ensile_error *why) {
    struct counters *counters = user;
    uint64_t by;
    MUST(count == 1);
    memcpy(&by, parameters[0].data, sizeof by);
    pthread_mutex_lock(&counters->guard);
    const int32_t outcome = change(counters, id, operation, by);
    pthread_mutex_unlock(&counters->guard);
    if (outcome != 0) {
        strcpy(why->message, "no such counter");
    }
    return outcome;
}

static ensile_code open_counters(struct counters *counters, const char *folder, bool marks, ensile_error *error) {
    const ensile_application application = {.abi_version = ENSILE_ABI_VERSION,
                                            .user = counters,
                                            .load_one = load_one,
                                            .replay_one = replay_one,
                                            .next_object = next_object,
                                            .save_one = save_one};
    ensile_settings *settings;
    memset(counters, 0, sizeof *counters);
    pthread_mutex_init(&counters->guard, NULL);
    pthread_mutex_init(&counters->turns, NULL);
    pthread_cond_init(&counters->next_turn, NULL);
    MUST(ensile_settings_new(&settings, NULL) == ENSILE_OK);
    MUST(ensile_settings_set(settings, ENSILE_POLICY_ON_DEMAND, 0, NULL) == ENSILE_OK);
    MUST(ensile_settings_set(settings, ENSILE_MARK_LIVES, marks, NULL) == ENSILE_OK);
    const ensile_code code = ensile_objects_open(folder, settings, &application, &counters->objects, error);
    MUST(ensile_settings_free(settings, NULL) == ENSILE_OK);
    return code;
}

static int32_t make(void *argument) {
    return change(argument, 1, MAKE, 5);
}

/* Logs and makes an operation, with its mark or without marks. */
static void log_change(struct counters *counters, bool marks, uint64_t id, uint32_t operation, uint64_t by) {
    const ensile_life lives[] = {ENSILE_LIFE_CREATION, ENSILE_LIFE_CHANGE, ENSILE_LIFE_REMOVAL};
    const ensile_bytes parameter = {&by, sizeof by};
    ensile_objects *objects = counters->objects;
    ensile_code code;
    pthread_mutex_lock(&counters->guard);
    if (marks && id == 1 && operation == MAKE) {
        code = ensile_objects_change_life(objects, id, lives[operation], operation, &parameter, 1, make, counters, NULL,
                                          NULL);
    } else {
        code = marks ? ensile_objects_log_life(objects, id, lives[operation], operation, &parameter, 1, NULL, NULL)
                     : ensile_objects_log(objects, id, operation, &parameter, 1, NULL, NULL);
        MUST(change(counters, id, operation, by) == 0);
    }
    pthread_mutex_unlock(&counters->guard);
    MUST(code == ENSILE_OK);
}

static void live(const char *folder, bool marks) {
    struct counters counters;
    ensile_stats stats = {0};
    MUST(open_counters(&counters, folder, marks, NULL) == ENSILE_OK);
    log_change(&counters, marks, 1, MAKE, 5);
    log_change(&counters, marks, 2, MAKE, 6);
    /* The checkpoint begins in a later epoch: its log begins after the creations. */
    MUST(ensile_objects_stats(counters.objects, &stats, sizeof stats, NULL) == ENSILE_OK);
    const ensile_receipt receipt = {stats.epoch};
    MUST(ensile_objects_durable(counters.objects, receipt, NULL) == ENSILE_OK);
    take_turn(&counters, NO_TURN, WAITED_FOR);
    MUST(ensile_objects_ask_checkpoint(counters.objects, NULL) == ENSILE_OK);
    take_turn(&counters, WALKS, WALKS);
    log_change(&counters, marks, 1, ADD, 7);
    log_change(&counters, marks, 1, REMOVE, 0);
    take_turn(&counters, WALKS, GOES_ON);
    while (stats.checkpoints == 0) {
        usleep(500);
        MUST(ensile_objects_stats(counters.objects, &stats, sizeof stats, NULL) == ENSILE_OK);
    }
    MUST(ensile_objects_free(counters.objects, NULL) == ENSILE_OK);
}

int main(int count, char **arguments) {
    struct counters counters;
    ensile_recovery recovery;
    ensile_error error;
    char unmarked[1000];
    MUST(count == 2);
    snprintf(unmarked, sizeof unmarked, "%s.unmarked", arguments[1]);
    live(unmarked, false);
    MUST(open_counters(&counters, unmarked, false, &error) == ENSILE_NOT_UNDERSTOOD);
    MUST(strstr(error.message, "no such counter") != NULL);

    live(arguments[1], true);
    for (int life = 0; life < 2; life++) {
        MUST(open_counters(&counters, arguments[1], true, &error) == ENSILE_OK);
        MUST(!counters.exists[1] && counters.exists[2] && counters.counters[2] == 6);
        MUST(ensile_objects_recovery(counters.objects, &recovery, sizeof recovery, NULL) == ENSILE_OK);
        MUST(recovery.log_entries == 2 && recovery.log_entries_passed_over == 2);
        MUST(ensile_objects_free(counters.objects, NULL) == ENSILE_OK);
    }
    printf("all as it must be");
    return 0;
}
