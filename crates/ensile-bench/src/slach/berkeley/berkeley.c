/*
 * The other side of `ensile-bench slach berkeley`: a table in Berkeley DB, asked line by line.
 *
 *   berkeley FOLDER KEYS VALUE_BYTES CACHE_BYTES PAGE_BYTES
 *
 * It makes the table in an empty folder, says "0", and answers each line of standard input with one line of numbers:
 *
 *   lookups SECONDS SEED               calls nanoseconds 0 hits misses
 *   updates SECONDS SEED CHECKPOINTS   calls nanoseconds checkpoints hits misses
 *   settle                             0, behind a checkpoint
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
static uint32_t value_bytes;
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

static void open_table(const char *folder, uint64_t cache_bytes, uint32_t page_bytes)
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
    check(table->set_pagesize(table, page_bytes), "the size of pages");
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

static atomic_bool over;
static atomic_uint checkpoints;

/* Makes checkpoints one after the other until a run is over. */
static void *make_checkpoints(void *unused)
{
    while (!atomic_load(&over)) {
        checkpoint();
        /* One that was still under way when the run ended is none of it. */
        if (!atomic_load(&over))
            atomic_fetch_add(&checkpoints, 1);
    }
    return unused;
}

static void pages(uint64_t *hits, uint64_t *misses)
{
    DB_MPOOL_STAT *all;
    check(env->memp_stat(env, &all, NULL, 0), "asking for the cache's hits");
    *hits = all->st_cache_hit;
    *misses = all->st_cache_miss;
    free(all);
}

static void run(int is_update, double seconds, uint64_t state, int with_checkpoints)
{
    uint64_t hits, misses, more_hits, more_misses, calls = 0, now;
    pthread_t thread;
    atomic_store(&over, 0);
    atomic_store(&checkpoints, 0);
    pages(&hits, &misses);
    uint64_t begun = nanos(), end = begun + (uint64_t)(seconds * 1e9);
    if (with_checkpoints && pthread_create(&thread, NULL, make_checkpoints, NULL) != 0) {
        fprintf(stderr, "Berkeley DB: no thread for checkpoints\n");
        exit(1);
    }
    do {
        for (int call = 0; call < CALLS_A_LOOK; call++, calls++) {
            uint64_t number = drawn(&state);
            if (is_update) {
                put(NULL, number, calls);
            } else {
                uint64_t key = mixed(number);
                DBT of_key, of_value;
                entries(&key, &of_key, &of_value);
                check(table->get(table, NULL, &of_key, &of_value, 0), "a lookup");
                if (of_value.size != value_bytes) {
                    fprintf(stderr, "Berkeley DB: a value has %u bytes\n", of_value.size);
                    exit(1);
                }
            }
        }
        now = nanos();
    } while (now < end);
    unsigned made = atomic_load(&checkpoints);
    if (with_checkpoints) {
        atomic_store(&over, 1);
        pthread_join(thread, NULL);
    }
    pages(&more_hits, &more_misses);
    printf("%" PRIu64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64 "\n", calls, now - begun, made, more_hits - hits,
           more_misses - misses);
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: berkeley FOLDER KEYS VALUE_BYTES CACHE_BYTES PAGE_BYTES\n");
        return 2;
    }
    keys = strtoull(words[2], NULL, 10);
    value_bytes = strtoul(words[3], NULL, 10);
    value = calloc(1, value_bytes + 1);
    if (keys == 0 || value == NULL) {
        fprintf(stderr, "Berkeley DB: no keys, or no memory for a value\n");
        return 2;
    }
    open_table(words[1], strtoull(words[4], NULL, 10), strtoul(words[5], NULL, 10));
    load();
    checkpoint();
    puts("0");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        double seconds;
        uint64_t seed;
        int with_checkpoints;
        if (sscanf(line, "lookups %lf %" SCNu64, &seconds, &seed) == 2) {
            run(0, seconds, seed, 0);
        } else if (sscanf(line, "updates %lf %" SCNu64 " %d", &seconds, &seed, &with_checkpoints) == 3) {
            run(1, seconds, seed, with_checkpoints);
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
