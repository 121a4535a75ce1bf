/* Versions in C: `versions FOLDER 0` writes a number by version 0 of a program, in tens; `versions FOLDER 1` is version 1 of
 * it, which counts in ones, and prints the number; `versions FOLDER none` is version 1 without its up-casts. */
#include <ensile/objects.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number;

static int32_t load_one(void *user, uint64_t object, ensile_bytes bytes, ensile_error *why) {
    (void)user, (void)object, (void)why;
    memcpy(&number, bytes.data, sizeof number);
    return 0;
}

static int32_t replay_one(void *user, uint64_t object, uint32_t operation, const ensile_bytes *parameters, size_t count,
                          ensile_error *why) {
    uint64_t by;
    (void)user, (void)object, (void)operation, (void)count, (void)why;
    memcpy(&by, parameters[0].data, sizeof by);
    number += by;
    return 0;
}

static int32_t load_older(void *user, uint32_t version, uint64_t object, ensile_bytes bytes, ensile_error *why) {
    const int32_t outcome = load_one(user, object, bytes, why);
    number *= version == 0 ? 10 : 1;
    return outcome;
}

static int32_t replay_older(void *user, uint32_t version, uint64_t object, uint32_t operation,
                            const ensile_bytes *parameters, size_t count, ensile_error *why) {
    const uint64_t before = number;
    const int32_t outcome = replay_one(user, object, operation, parameters, count, why);
    number = before + (number - before) * (version == 0 ? 10 : 1);
    return outcome;
}

static int32_t next_object(void *user, uint64_t from, uint64_t *object, ensile_error *why) {
    (void)user, (void)why;
    if (from <= 7) {
        *object = 7;
    }
    return 0;
}

static int32_t save_one(void *user, uint64_t object, ensile_writer *writer, ensile_error *why) {
    (void)user, (void)why;
    ensile_writer_ckpt(writer, object, &number, sizeof number);
    return 0;
}

static void must(ensile_code code, const ensile_error *error) {
    if (code != ENSILE_OK) {
        printf("%s: %s", ensile_code_name(code), error->message);
        exit(0);
    }
}

/* The only thread that logs: it needs no guard but against the checkpoint, which it waits for. */
static void add(ensile_objects *objects, uint64_t by) {
    const ensile_bytes parameter = {&by, sizeof by};
    ensile_error error;
    must(ensile_objects_log(objects, 7, 0, &parameter, 1, NULL, &error), &error);
    number += by;
}

int main(int count, char **arguments) {
    ensile_application application = {.abi_version = ENSILE_ABI_VERSION,
                                      .load_one = load_one,
                                      .replay_one = replay_one,
                                      .next_object = next_object,
                                      .save_one = save_one};
    ensile_settings *settings;
    ensile_objects *objects;
    ensile_error error;
    if (count < 3) {
        return 2;
    }
    if (strcmp(arguments[2], "0") != 0) {
        application.version = 1;
    }
    if (strcmp(arguments[2], "1") == 0) {
        application.load_older = load_older;
        application.replay_older = replay_older;
    }
    must(ensile_settings_new(&settings, &error), &error);
    must(ensile_settings_set(settings, ENSILE_POLICY_ON_DEMAND, 0, &error), &error);
    must(ensile_objects_open(arguments[1], settings, &application, &objects, &error), &error);
    must(ensile_settings_free(settings, &error), &error);
    if (application.version == 0) {
        add(objects, 2);
        must(ensile_objects_checkpoint(objects, NULL, 0, &error), &error);
        add(objects, 3);
    }
    printf("%d", (int)number);
    must(ensile_objects_free(objects, &error), &error);
    return 0;
}
