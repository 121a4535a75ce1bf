/* A change that fails after its log entry, and a debug mode that finds a change which a replay makes differently. */
#include <ensile/objects.h>

#include "must.h"

#include <pthread.h>
#include <string.h>

enum { SUMS = 6 };

struct sums {
    pthread_mutex_t guard;
    bool exists[SUMS];
    int64_t sums[SUMS];
    int64_t drift; /* Added to 7 by a replay. */
};

static int32_t next_object(void *user, uint64_t from, uint64_t *object, ensile_error *why) {
    (void)user, (void)why;
    if (from < SUMS) {
        *object = from;
    }
    return 0;
}

static int32_t save_one(void *user, uint64_t id, ensile_writer *writer, ensile_error *why) {
    struct sums *sums = user;
    ensile_code code = ENSILE_OK;
    (void)why;
    pthread_mutex_lock(&sums->guard);
    if (sums->exists[id]) {
        code = ensile_writer_ckpt(writer, id, &sums->sums[id], sizeof sums->sums[id]);
    }
    pthread_mutex_unlock(&sums->guard);
    return code != ENSILE_OK && code != ENSILE_BLOCK_FULL;
}

static int32_t load_one(void *user, uint64_t id, ensile_bytes bytes, ensile_error *why) {
    struct sums *sums = user;
    (void)why;
    memcpy(&sums->sums[id], bytes.data, bytes.size);
    sums->exists[id] = true;
    return 0;
}

static int32_t replay_one(void *user, uint64_t id, uint32_t operation, const ensile_bytes *parameters, size_t count,
                          ensile_error *why) {
    struct sums *sums = user;
    int64_t by;
    (void)operation, (void)why;
    MUST(count == 1);
    memcpy(&by, parameters[0].data, sizeof by);
    pthread_mutex_lock(&sums->guard);
    sums->sums[id] += by + (by == 7 ? sums->drift : 0);
    sums->exists[id] = true;
    pthread_mutex_unlock(&sums->guard);
    return 0;
}

static ensile_application table_of(struct sums *sums) {
    const ensile_application application = {.abi_version = ENSILE_ABI_VERSION,
                                            .user = sums,
                                            .load_one = load_one,
                                            .replay_one = replay_one,
                                            .next_object = next_object,
                                            .save_one = save_one};
    memset(sums, 0, sizeof *sums);
    pthread_mutex_init(&sums->guard, NULL);
    return application;
}

/* Opens sums, with a copy if `copy` is not NULL. */
static ensile_objects *open_sums(const char *folder, struct sums *sums, struct sums *copy) {
    const ensile_application application = table_of(sums);
    ensile_objects *objects;
    ensile_settings *settings;
    MUST(ensile_settings_new(&settings, NULL) == ENSILE_OK);
    MUST(ensile_settings_set(settings, ENSILE_POLICY_ON_DEMAND, 0, NULL) == ENSILE_OK);
    if (copy == NULL) {
        MUST(ensile_objects_open(folder, settings, &application, &objects, NULL) == ENSILE_OK);
    } else {
        const ensile_application copied = table_of(copy);
        MUST(ensile_objects_open_checked(folder, settings, &application, &copied, &objects, NULL) == ENSILE_OK);
    }
    MUST(ensile_settings_free(settings, NULL) == ENSILE_OK);
    return objects;
}

struct addition {
    struct sums *sums;
    uint64_t id;
    int64_t by;
    bool fails;
};

static int32_t make(void *argument) {
    const struct addition *addition = argument;
    if (addition->fails) {
        return 1;
    }
    addition->sums->sums[addition->id] += addition->by;
    addition->sums->exists[addition->id] = true;
    return 0;
}

static ensile_code add(ensile_objects *objects, struct addition addition, ensile_error *error) {
    const ensile_bytes parameter = {&addition.by, sizeof addition.by};
    pthread_mutex_lock(&addition.sums->guard);
    const ensile_code code =
        ensile_objects_change(objects, addition.id, 0, &parameter, 1, make, &addition, NULL, error);
    pthread_mutex_unlock(&addition.sums->guard);
    return code;
}

static void live(const char *folder) {
    struct sums sums;
    ensile_objects *objects = open_sums(folder, &sums, NULL);
    ensile_error error;
    bool poisoned = false;
    MUST(add(objects, (struct addition){&sums, 1, 5, false}, NULL) == ENSILE_OK);
    MUST(ensile_objects_checkpoint(objects, NULL, 0, NULL) == ENSILE_OK);
    MUST(add(objects, (struct addition){&sums, 1, 7, true}, &error) == ENSILE_POISONED);
    MUST(strstr(error.message, "the change of object 1 failed after its log entry") != NULL);
    MUST(ensile_objects_checkpoint(objects, NULL, 0, &error) == ENSILE_CHECKPOINT_FAILED);
    MUST(strstr(error.message, "object 1 is poisoned") != NULL);
    MUST(add(objects, (struct addition){&sums, 1, 1, false}, NULL) == ENSILE_POISONED);
    MUST(ensile_objects_is_poisoned(objects, 1, &poisoned, NULL) == ENSILE_OK && poisoned);
    MUST(add(objects, (struct addition){&sums, 2, 1, false}, NULL) == ENSILE_OK);
    MUST(ensile_objects_poison(objects, 2, NULL) == ENSILE_OK);
    MUST(add(objects, (struct addition){&sums, 2, 1, false}, NULL) == ENSILE_POISONED);
    MUST(ensile_objects_free(objects, NULL) == ENSILE_OK);
}

int main(int count, char **arguments) {
    struct sums sums, copy;
    ensile_error error;
    char text[300];
    MUST(count == 2);
    live(arguments[1]);

    ensile_objects *objects = open_sums(arguments[1], &sums, &copy);
    MUST(sums.sums[1] == 12 && sums.sums[2] == 1);
    copy.drift = 1;
    MUST(add(objects, (struct addition){&sums, 3, 6, false}, NULL) == ENSILE_OK);
    MUST(ensile_objects_checkpoint(objects, NULL, 0, NULL) == ENSILE_OK);
    MUST(ensile_objects_text(objects, ENSILE_TEXT_DIFFERENCE, text, sizeof text, NULL) == ENSILE_OK && text[0] == 0);
    MUST(add(objects, (struct addition){&sums, 4, 7, false}, NULL) == ENSILE_OK);
    MUST(ensile_objects_checkpoint(objects, NULL, 0, &error) == ENSILE_CHECKPOINT_FAILED);
    MUST(ensile_objects_text(objects, ENSILE_TEXT_DIFFERENCE, text, sizeof text, NULL) == ENSILE_OK);
    MUST(strstr(text, "object 4 is not what its operations make of it: byte 0") == text);
    MUST(strstr(error.message, text) != NULL);
    MUST(ensile_objects_free(objects, NULL) == ENSILE_OK);
    printf("all as it must be");
    return 0;
}
