/*
 * The other side of `ensile-papers slach berkeley`: a table in Berkeley DB, asked line by line.
 *
 *   berkeley FOLDER KEYS VALUE_BYTES CACHE_BYTES PAGE_BYTES
 *
 * It makes the table in an empty folder, says "0", and answers each line of standard input with one line of numbers:
 *
 *   lookups SECONDS SEED                       calls nanoseconds, pages found in the cache and not
 *   updates SECONDS SEED INTERVAL LEAST MOST   calls nanoseconds checkpoints, their nanoseconds and bytes, bytes of log
 *   settle                                     0, behind a checkpoint
 *
 * INTERVAL is 0 without checkpoints. Otherwise the first one begins that many seconds behind the beginning of the run,
 * and each other one as many behind the beginning of the one before, or at its end if that is later. The run goes on
 * until LEAST checkpoints have ended, for MOST seconds at most. `table.rs` has the same schedule.
 *
 * As SLACH's paper has it (6.5): BTREE, DB_TXN_WRITE_NOSYNC and DB_AUTO_COMMIT, so a commit has reached the operating
 * system when it returns. The environment is DB_PRIVATE: then the cache is memory of malloc, which the program that
 * starts this one puts on huge pages (glibc.malloc.hugetlb). Keys, and which of them are called, are those of the
 * table's side; see `keys.rs`.
 */
#define _GNU_SOURCE
#include <db.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Calls between two looks at the clock. */
#define CALLS_A_LOOK 64
/* Elements that are made in a transaction. */
#define LOADED_AT_ONCE 256
/* Before its commit a load holds a lock for each page that it changed. */
#define LOCKS 65536
/* Room for what a commit writes at once, and the length of a file of the log. */
#define LOG_BUFFER_BYTES (4 << 20)
#define LOG_FILE_BYTES (128 << 20)

static DB_ENV *env;
static DB *table;
static uint64_t keys;
static uint32_t value_bytes, page_size;
static unsigned char *value;

static void check(int error, const char *doing)
{
    if (error != 0) {
        fprintf(stderr, "Berkeley DB: %s: %s\n", doing, db_strerror(error));
        exit(1);
    }
}

static uint64_t nanos(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The last step of splitmix64: no two numbers become the same. */
static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Draws the number of a key. */
static uint64_t drawn(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    return (uint64_t)((unsigned __int128)mixed(*state) * keys >> 64);
}

/* The entry of a key, which has eight bytes, and of its value. */
static void entries(uint64_t *key, DBT *of_key, DBT *of_value)
{
    memset(of_key, 0, sizeof *of_key);
    memset(of_value, 0, sizeof *of_value);
    of_key->data = key;
    of_key->size = of_key->ulen = sizeof *key;
    of_key->flags = of_value->flags = DB_DBT_USERMEM;
    of_value->data = value;
    of_value->size = of_value->ulen = value_bytes;
}

static void put(DB_TXN *transaction, uint64_t number, uint64_t content)
{
    uint64_t key = mixed(number);
    DBT of_key, of_value;
    entries(&key, &of_key, &of_value);
    memcpy(value, &content, value_bytes < sizeof content ? value_bytes : sizeof content);
    check(table->put(table, transaction, &of_key, &of_value, 0), "an update");
}

static void open_table(const char *folder, uint64_t cache_bytes)
{
    check(db_env_create(&env, 0), "making an environment");
    env->set_errfile(env, stderr);
    check(env->set_cachesize(env, cache_bytes >> 30, cache_bytes & ((1 << 30) - 1), 1), "the cache");
    check(env->set_lg_bsize(env, LOG_BUFFER_BYTES), "the log's buffer");
    check(env->set_lg_max(env, LOG_FILE_BYTES), "the log's files");
    check(env->set_lk_max_locks(env, LOCKS), "locks");
    check(env->set_lk_max_objects(env, LOCKS), "locks");
    check(env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1), "DB_TXN_WRITE_NOSYNC");
    check(env->set_flags(env, DB_AUTO_COMMIT, 1), "DB_AUTO_COMMIT");
    uint32_t parts = DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_TXN;
    check(env->open(env, folder, DB_CREATE | DB_PRIVATE | DB_THREAD | parts, 0), "opening the environment");
    check(env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1), "removing old log files");
    check(db_create(&table, env, 0), "making a table");
    check(table->set_pagesize(table, page_size), "the size of pages");
    check(table->open(table, NULL, "table", NULL, DB_BTREE, DB_CREATE | DB_EXCL | DB_THREAD | DB_AUTO_COMMIT, 0), "opening the table");
}

/* Numbers go up, so keys come at random. */
static void load(void)
{
    for (uint64_t number = 0; number < keys;) {
        DB_TXN *transaction;
        check(env->txn_begin(env, NULL, &transaction, DB_TXN_NOSYNC), "beginning a transaction");
        for (uint64_t end = number + LOADED_AT_ONCE; number < end && number < keys; number++)
            put(transaction, number, number);
        check(transaction->commit(transaction, DB_TXN_NOSYNC), "a commit");
    }
}

static void checkpoint(void)
{
    check(env->txn_checkpoint(env, 0, 0, 0), "a checkpoint");
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_of_run;
static bool over;
/* Checkpoints that have ended, and the nanoseconds that they took. */
static atomic_uint ended;
static atomic_ullong ended_nanos;

/* Waits until that time, or the end of the run. True if the run is over. */
static bool is_over_by(uint64_t due)
{
    struct timespec at = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
    pthread_mutex_lock(&lock);
    while (!over && nanos() < due)
        pthread_cond_timedwait(&end_of_run, &lock, &at);
    bool is_over = over;
    pthread_mutex_unlock(&lock);
    return is_over;
}

/* Makes a checkpoint each interval until a run is over. */
static void *make_checkpoints(void *argument)
{
    uint64_t interval = *(uint64_t *)argument, due = nanos() + interval;
    while (!is_over_by(due)) {
        uint64_t begun = nanos();
        checkpoint();
        /* A run that has seen the count has the time, too. */
        atomic_fetch_add(&ended_nanos, nanos() - begun);
        atomic_fetch_add(&ended, 1);
        due = begun + interval;
    }
    return NULL;
}

/* What the environment counts. */
struct counts {
    uint64_t hits, misses, page_bytes, log_bytes;
};

static struct counts counts(void)
{
    DB_MPOOL_STAT *pool;
    DB_LOG_STAT *log;
    check(env->memp_stat(env, &pool, NULL, 0), "asking for the cache's figures");
    check(env->log_stat(env, &log, 0), "asking for the log's figures");
    struct counts all = {
        .hits = pool->st_cache_hit,
        .misses = pool->st_cache_miss,
        .page_bytes = (uint64_t)pool->st_page_out * page_size,
        .log_bytes = ((uint64_t)log->st_w_mbytes << 20) + log->st_w_bytes,
    };
    free(pool);
    free(log);
    return all;
}

static void call(bool is_update, uint64_t number, uint64_t content)
{
    if (is_update) {
        put(NULL, number, content);
        return;
    }
    uint64_t key = mixed(number);
    DBT of_key, of_value;
    entries(&key, &of_key, &of_value);
    check(table->get(table, NULL, &of_key, &of_value, 0), "a lookup");
    if (of_value.size != value_bytes) {
        fprintf(stderr, "Berkeley DB: a value has %u bytes\n", of_value.size);
        exit(1);
    }
}

static void run(bool is_update, double seconds, uint64_t state, double interval_seconds, unsigned least, double most)
{
    uint64_t calls = 0, now, interval = (uint64_t)(interval_seconds * 1e9);
    pthread_t thread;
    over = false;
    atomic_store(&ended, 0);
    atomic_store(&ended_nanos, 0);
    struct counts before = counts();
    uint64_t begun = nanos(), end = begun + (uint64_t)(seconds * 1e9), last = begun + (uint64_t)(most * 1e9);
    if (interval > 0 && pthread_create(&thread, NULL, make_checkpoints, &interval) != 0) {
        fprintf(stderr, "Berkeley DB: no thread for checkpoints\n");
        exit(1);
    }
    do {
        for (int at = 0; at < CALLS_A_LOOK; at++, calls++)
            call(is_update, drawn(&state), calls);
        now = nanos();
    } while (now < end || (interval > 0 && atomic_load(&ended) < least && now < last));
    /* A checkpoint that is still under way is none of the run. */
    unsigned made = atomic_load(&ended);
    uint64_t made_nanos = atomic_load(&ended_nanos);
    struct counts after = counts();
    if (interval > 0) {
        pthread_mutex_lock(&lock);
        over = true;
        pthread_cond_signal(&end_of_run);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    }
    printf("%" PRIu64 " %" PRIu64, calls, now - begun);
    if (is_update)
        printf(" %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", made, made_nanos, after.page_bytes - before.page_bytes,
               after.log_bytes - before.log_bytes);
    else
        printf(" %" PRIu64 " %" PRIu64 "\n", after.hits - before.hits, after.misses - before.misses);
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: berkeley FOLDER KEYS VALUE_BYTES CACHE_BYTES PAGE_BYTES\n");
        return 2;
    }
    keys = strtoull(words[2], NULL, 10);
    value_bytes = strtoul(words[3], NULL, 10);
    page_size = strtoul(words[5], NULL, 10);
    value = calloc(1, value_bytes + 1);
    if (keys == 0 || value == NULL) {
        fprintf(stderr, "Berkeley DB: no keys, or no memory for a value\n");
        return 2;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&end_of_run, &monotonic);
    open_table(words[1], strtoull(words[4], NULL, 10));
    load();
    checkpoint();
    puts("0");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        double seconds, interval, most;
        uint64_t seed;
        unsigned least;
        if (sscanf(line, "lookups %lf %" SCNu64, &seconds, &seed) == 2) {
            run(false, seconds, seed, 0, 0, 0);
        } else if (sscanf(line, "updates %lf %" SCNu64 " %lf %u %lf", &seconds, &seed, &interval, &least,
                          &most) == 5) {
            run(true, seconds, seed, interval, least, most);
        } else if (strcmp(line, "settle\n") == 0) {
            checkpoint();
            puts("0");
        } else {
            fprintf(stderr, "Berkeley DB: no such request: %s", line);
            return 2;
        }
        fflush(stdout);
    }
    /* Nobody opens the table again, so nothing need be written. */
    fflush(stdout);
    _Exit(0);
}
