/* The scene of a lost guard: a checkpoint between the log of an operation and the change behind it.
 *
 * The linker puts these functions before the library's log and the system's lock (`--wrap`), so that the service is the
 * example's, word for word. When the operation of the scene is logged, a checkpoint is asked for, and the logging thread
 * waits until it is made, or until its walk waits for a guard. No clock decides: with the guard only the latter can
 * come, without it only the former. */
#include <ensile/objects.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

static int waits_for_guard, is_scene;
static ensile_objects *scene_objects;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (pthread_mutex_trylock(mutex) == 0) {
        return 0;
    }
    __atomic_store_n(&waits_for_guard, 1, __ATOMIC_SEQ_CST);
    return __real_pthread_mutex_lock(mutex);
}

static void must(ensile_code code, const char *what) {
    if (code != ENSILE_OK) {
        fprintf(stderr, "%s: %s\n", what, ensile_code_name(code));
        exit(1);
    }
}

static uint64_t checkpoints(void) {
    ensile_stats stats;
    must(ensile_objects_stats(scene_objects, &stats, sizeof stats, NULL), "stats");
    return stats.checkpoints;
}

ensile_code __real_ensile_objects_log(ensile_objects *objects, uint64_t object, uint32_t operation,
                                      const ensile_bytes *parameters, size_t count, ensile_receipt *receipt,
                                      ensile_error *error);
ensile_code __wrap_ensile_objects_log(ensile_objects *objects, uint64_t object, uint32_t operation,
                                      const ensile_bytes *parameters, size_t count, ensile_receipt *receipt,
                                      ensile_error *error);
ensile_code __wrap_ensile_objects_log(ensile_objects *objects, uint64_t object, uint32_t operation,
                                      const ensile_bytes *parameters, size_t count, ensile_receipt *receipt,
                                      ensile_error *error) {
    const ensile_code code =
        __real_ensile_objects_log(objects, object, operation, parameters, count, receipt, error);
    if (code == ENSILE_OK && scene_objects == NULL) {
        /* No other checkpoint than the scene's. */
        ensile_settings *settings;
        scene_objects = objects;
        must(ensile_settings_new(&settings, NULL), "settings");
        must(ensile_settings_set(settings, ENSILE_POLICY_ON_DEMAND, 0, NULL), "policy");
        must(ensile_objects_register_policy(objects, settings, NULL), "register");
        must(ensile_settings_free(settings, NULL), "free");
    }
    if (code == ENSILE_OK && is_scene) {
        is_scene = 0;
        must(ensile_objects_ask_checkpoint(objects, NULL), "ask");
        while (checkpoints() == 0 && __atomic_load_n(&waits_for_guard, __ATOMIC_SEQ_CST) == 0) {
            usleep(500);
        }
    }
    return code;
}

/* The end of the scene: the operation is durable and the checkpoint made when the process is killed. */
static void die_behind_checkpoint(ensile_receipt receipt) {
    must(ensile_objects_durable(scene_objects, receipt, NULL), "durable");
    while (checkpoints() == 0) {
        usleep(500);
    }
    kill(getpid(), SIGKILL);
}

#ifdef __cplusplus
}
#endif
