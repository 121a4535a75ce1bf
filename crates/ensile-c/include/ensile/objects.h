/*
 * Ensile: your own objects, made persistent (the paper's SLACH). C99, and C++ (a wrapper is in objects.hpp).
 *
 * A program keeps its objects in its own memory, each with a number and a guard, a lock of the program's. It logs each
 * change as an operation before it makes it; checkpoints write the objects one by one, beside everything else; after a
 * crash each object is loaded as the checkpoint has it, and the operations behind it are replayed.
 *
 * Discipline. The guard is held
 *   - over ensile_objects_log AND the change of the object behind it;
 *   - over the making of an object's bytes AND ensile_writer_ckpt.
 * Without it an operation may be lost in a crash although it was durable. Operations are deterministic and depend on
 * their own object only. An object can be found by the checkpoint's call-back before its first operation is logged.
 * Nothing may fail between ensile_objects_log and the change: what can fail comes before. Where the change has failed all
 * the same, the operation is logged and the object does not have it: a checkpoint that takes the object loses the
 * operation, though it was durable. So the call-back of each checkpoint from then on fails at that object, and the program
 * ends or opens again, which applies the operation. The same may happen at an open: a replay_one that fails at one object
 * fails it. A program that would rather serve all other objects returns 0 there, refuses that object to its own callers from
 * then on, passes later operations on it over, and has checkpoints fail at it: the log then keeps all of them.
 *
 * Versions. `version` of the application stands with every object and operation that it writes. What an older program has
 * written goes to load_older and replay_older, which make it one of today (an up-cast); without them, and for what a newer
 * program has written, the open fails and says which versions met. Nothing was changed: a program that knows the version
 * opens the folder. A checkpoint of today's program writes every object in today's version.
 *
 * Calls. Every function can be called from any thread, and functions of one ensile_objects several at once, but for its
 * end. Settings are used by one thread at a time. A call-back calls ensile_writer_ckpt and ensile_writer_absent, and no
 * other function of an ensile_objects: that returns ENSILE_IN_CALL_BACK. A function that a call-back has another thread
 * call is not noticed, and may wait for the call-back for ever.
 *
 * Ownership. What ensile_.._new and ensile_objects_open return is the caller's until its ensile_.._free. Bytes, strings
 * and structs that are passed in are copied, or used until the call returns. Bytes that a call-back gets are the
 * library's until the call-back returns. `user` stays the caller's: it lives until ensile_objects_close or
 * ensile_objects_free has returned ENSILE_OK or an error of the log, or ensile_objects_open an error; no call-back runs
 * from then on.
 *
 * Pointers. NULL, a handle of another kind, a writer whose call-back has returned and a closed handle are noticed, and
 * get a code. A handle that was freed is not: it must not be used, nor freed again.
 *
 * Not here yet, and in Rust (ensile-objects): shipping to a shared store (ObjectsBuilder::ship_to), and so the
 * take-over from it by another machine (take_over); a call-back or a future for a receipt that becomes durable
 * (ensile_objects_durable waits, ensile_objects_is_durable asks); the replay of a recorded folder against the present
 * program (ApplicationLog::check), and the debug mode that replays each operation on a copy (open_application_checked);
 * a log without threads of its own, whose steps the program takes on a thread of its own
 * (ObjectsBuilder::without_threads and drive); checkpoints in slices, written by several threads
 * (Application::slice_starts): here there is one slice, which one checkpointer writes; guards that remember a panic and
 * refuse their object (GuardedObjects): a program does as the discipline above says.
 *
 * Unwinding. A panic inside the library becomes ENSILE_PANICKED. A call-back must return: no exception and no longjmp
 * leaves it (objects.hpp sees to that).
 */
#ifndef ENSILE_OBJECTS_H
#define ENSILE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this file declares. ensile_objects_open compares it with the library's. */
#define ENSILE_ABI_VERSION 3

/* The number of no object: an object's number is smaller. */
#define ENSILE_NO_OBJECT UINT64_MAX

/* What a call came to. The text in an ensile_error says what to do. */
typedef int32_t ensile_code;
enum {
    ENSILE_OK = 0,
    /* ensile_writer_..: it was taken, and there is room for no other: the call-back returns. */
    ENSILE_BLOCK_FULL = 1,
    /* The call is wrong, and nothing was done: mend it. */
    ENSILE_INVALID = 2,
    /* Header and library are of different versions. Nothing was opened. */
    ENSILE_ABI_MISMATCH = 3,
    /* It was called from a call-back, which may not. Nothing was done. */
    ENSILE_IN_CALL_BACK = 4,
    /* The handle is closed. Nothing was done. */
    ENSILE_CLOSED = 5,
    /* Nothing was done: try again once the cause is gone (a full disk, a folder that is in use). */
    ENSILE_TRY_AGAIN = 6,
    /* The log has stopped, and nothing was done: open again. */
    ENSILE_STOPPED = 7,
    /* Logged, and not durable yet: it becomes durable by itself once the cause is gone. Do not run it again. */
    ENSILE_NOT_DURABLE_YET = 8,
    /* Whether it survives is known once the folder is opened again. */
    ENSILE_OUTCOME_UNKNOWN = 9,
    /* No checkpoint was made. Nothing else is lost. */
    ENSILE_CHECKPOINT_FAILED = 10,
    /* The folder is another one than meant. Nothing was changed. */
    ENSILE_WRONG_FOLDER = 11,
    /* Something that was durable cannot be read back: restore it from a copy. */
    ENSILE_DAMAGED = 12,
    /* A call-back, or this version, does not understand what was read. Nothing was opened. */
    ENSILE_NOT_UNDERSTOOD = 13,
    /* This process was forked from the one that has the folder open. */
    ENSILE_FORKED = 14,
    /* A bug of the library's, caught. Close, and open again. */
    ENSILE_PANICKED = 15,
    /* What the text says; of a later version of the library. */
    ENSILE_FAILED = 16
};

/* The name of a code, in lower case; "unknown" of a number that is none. It lives as long as the library. */
const char *ensile_code_name(ensile_code code);

/* The version of the library: ENSILE_ABI_VERSION of the header that belongs to it. */
uint32_t ensile_abi_version(void);

/* What a call came to, in words. The caller's memory, one for each call that is under way; or NULL. */
typedef struct ensile_error {
    ensile_code code;
    /* Ends with a zero; empty after ENSILE_OK; cut if it is longer. */
    char message[1020];
} ensile_error;

/* Bytes of somebody else's. `data` may be NULL if `size` is 0. */
typedef struct ensile_bytes {
    const void *data;
    size_t size;
} ensile_bytes;

/* Settings, used by one thread at a time. */
typedef struct ensile_settings ensile_settings;

typedef uint32_t ensile_setting;
enum {
    /* How many loggers write in parallel, each in files of its own. 1 without this. */
    ENSILE_LOGGERS = 1,
    /* How many checkpointers the folder has. 1 without this; one of them writes an application's objects. */
    ENSILE_CHECKPOINTERS = 2,
    /* How many threads recover. As many as the machine has without this. */
    ENSILE_RECOVERY_THREADS = 3,
    /* Time between two epochs, at least 1000: what a crash may take of results that were not waited for. */
    ENSILE_EPOCH_INTERVAL_MICROS = 4,
    /* A log begins a new file once its current one is this long. */
    ENSILE_LOG_FILE_BYTES = 5,
    /* Most bytes a second that checkpoints write; as fast as they can without this. */
    ENSILE_CHECKPOINT_BYTES_PER_SECOND = 6,
    /* 1: what ensile_objects_log returned is not lost when the process dies, however it dies; a crash of the machine
     * takes what is not durable. The file system is ext4, XFS, F2FS or tmpfs. 0 by default. */
    ENSILE_PROCESS_SAFE = 7,
    /* 0 to 19, 0 by default: by how much checkpoints give way to the program's threads, added to the niceness of the
     * thread that opens. Responses are sooner beside a checkpoint. Where all cores are busy it may take minutes, while
     * the log grows: beside twenty busy threads on two cores, with 10, a checkpointer gets 1 % of a core. */
    ENSILE_CHECKPOINT_NICENESS = 8,
    /* 1: nothing is logged, and only checkpoints keep changes: the program asks for them, or a policy of time does.
     * ensile_objects_log is called as ever; its receipts are never durable, and waiting for one is ENSILE_INVALID. 0 by
     * default. Of this and ENSILE_PROCESS_SAFE the one counts that is set last. */
    ENSILE_NOT_LOGGED = 9,
    /* 1: the folder ships no more, and forgets its shared store. A folder that ships is refused without this, as another
     * machine may have taken over; only a program in Rust ships. 0 by default. */
    ENSILE_STOP_SHIPPING = 10,
    /* 1: a fenced folder is opened too: another machine has taken over from it. What only this folder has can be read;
     * each change is ENSILE_STOPPED. 0 by default. */
    ENSILE_OPEN_FENCED = 11,

    /* The policy, by which checkpoints begin: whatever comes first. 0: not by this. Without any of these 10 seconds after
     * the last one if the log has grown, or after 4 GiB of log; what is set changes its own part alone, but for
     * ENSILE_POLICY_ADAPTIVE_CAPACITY and ENSILE_POLICY_ON_DEMAND. Only for the latter the order matters. */
    /* Value 0, and the only one: no checkpoint begins by itself. It takes back all that was set of the policy before. */
    ENSILE_POLICY_ON_DEMAND = 32,
    /* Bytes of log since the last one began. */
    ENSILE_POLICY_LOG_BYTES = 33,
    /* Operations logged since the last one began. */
    ENSILE_POLICY_LOG_RECORDS = 34,
    /* Time since the last one ended, if the log has grown. */
    ENSILE_POLICY_INTERVAL_MILLIS = 35,
    /* In time for no recovery to take longer than this, as far as that is known. */
    ENSILE_POLICY_RECOVERY_MILLIS = 36,
    /* A number of log bytes, of records or of milliseconds that follows the load (SLACH section 4): how many requests a
     * second are all that the service can do, where these are reported, or else bytes, or records, which stand for time
     * too. It takes the place of the 10 seconds and the 4 GiB, unless these are set. The settings below are those of the
     * paper's table 3 for its first service where they are not set; bounds of bytes and of time are this library's. */
    ENSILE_POLICY_ADAPTIVE_CAPACITY = 37,
    /* LB and UB. Of records 1,000,000 and 8,000,000 by default; of bytes 512 MiB and 4 GiB; of time 10,000 and 80,000
     * milliseconds. */
    ENSILE_POLICY_ADAPTIVE_LOWER = 38,
    ENSILE_POLICY_ADAPTIVE_UPPER = 39,
    /* LW and HW, in percent of the capacity: 20 and 85 by default. */
    ENSILE_POLICY_ADAPTIVE_LOW_WATERMARK = 40,
    ENSILE_POLICY_ADAPTIVE_HIGH_WATERMARK = 41,
    /* beta: 3 by default. */
    ENSILE_POLICY_ADAPTIVE_SCALING = 42,
    /* alpha, the weight of the load so far, in percent: 80 by default. */
    ENSILE_POLICY_ADAPTIVE_WEIGHT = 43,
    /* w: 5000 by default, 1000 at least. */
    ENSILE_POLICY_ADAPTIVE_WINDOW_MILLIS = 44,
    /* What LB and UB are of: an ENSILE_MEASURE_.., of which bytes are the default. */
    ENSILE_POLICY_ADAPTIVE_MEASURE = 45,
    /* 1: the capacity becomes the rate at which 5 % of the reported requests are lost. 0 by default. */
    ENSILE_POLICY_ADAPTIVE_PROBED = 46
};

/* Figures have these as uint64_t. */
enum {
    /* Bytes of log since the last checkpoint began. */
    ENSILE_MEASURE_BYTES = 0,
    /* Records since then, which are logged operations. */
    ENSILE_MEASURE_RECORDS = 1,
    /* Milliseconds since the last checkpoint ended; none begins before the log has grown. */
    ENSILE_MEASURE_TIME = 2
};

typedef uint32_t ensile_folder;
enum {
    /* For the files of one more logger. The number of such folders is the number of loggers. */
    ENSILE_LOG_FOLDER = 1,
    /* For the files of one more checkpointer. The number of such folders is the number of checkpointers. */
    ENSILE_CHECKPOINT_FOLDER = 2
};

/* The usual settings, in *settings. */
ensile_code ensile_settings_new(ensile_settings **settings, ensile_error *error);
/* Changes one. ENSILE_INVALID: it is no setting, or cannot have this value. */
ensile_code ensile_settings_set(ensile_settings *settings, ensile_setting setting, uint64_t value, ensile_error *error);
/* Adds a folder on another device. Such folders are remembered by links in the main folder. */
ensile_code ensile_settings_add_folder(ensile_settings *settings, ensile_folder what, const char *folder,
                                       ensile_error *error);
/* Whose the folder is: the application's name, and which part of it has this folder, as in "prices, partition 0 of 4".
 * A folder that has no name yet gets this one with the open, and keeps it. From then on ensile_objects_open refuses it
 * for another name, and without one: ENSILE_WRONG_FOLDER. `ensile objects name` changes it. Printable ASCII, 1 to 255
 * bytes, without a space at either end: ENSILE_INVALID for anything else. */
ensile_code ensile_settings_application_name(ensile_settings *settings, const char *name, ensile_error *error);
/* Ends the handle; NULL is nothing. No other call may use it meanwhile. */
ensile_code ensile_settings_free(ensile_settings *settings, ensile_error *error);

/* Takes objects for a checkpoint, within a call-back and on its thread. */
typedef struct ensile_writer ensile_writer;

/* Takes an object's bytes, whose guard the caller holds since it made them. Objects come in the order of their numbers.
 * ENSILE_OK: the next one. ENSILE_BLOCK_FULL: this one was taken; the call-back returns, and says where to go on.
 * Another code: the checkpoint is given up, and the call-back returns. */
ensile_code ensile_writer_ckpt(ensile_writer *writer, uint64_t object, const void *data, size_t size);
/* Notes that there is no object of this number, after operations on it: those are not replayed then. Needed only where
 * a removal depends on what it finds. Returns as ensile_writer_ckpt. */
ensile_code ensile_writer_absent(ensile_writer *writer, uint64_t object);

/* An application that keeps its own objects: call-backs, from any of the library's threads, several at once. They return
 * 0, or anything else and why in *why, which is never NULL, and whose code does not matter. */
typedef struct ensile_application {
    /* ENSILE_ABI_VERSION. */
    uint32_t abi_version;
    /* The version of all that this application writes: its objects' bytes, the numbers of its operations and their
     * parameters. 65535 at most. Raise it when one of these changes. */
    uint32_t version;
    /* Comes with every call-back. */
    void *user;
    /* Loads one object from what its checkpoint has: while the folder is opened, for one object once. */
    int32_t (*load_one)(void *user, uint64_t object, ensile_bytes bytes, ensile_error *why);
    /* Replays one logged operation, with its parameters: while the folder is opened, for one object by one at a time,
     * and in order. */
    int32_t (*replay_one)(void *user, uint64_t object, uint32_t operation, const ensile_bytes *parameters,
                          size_t parameters_count, ensile_error *why);
    /* As the two above, of bytes and of an operation that a program of an older version has written. NULL: such ones fail
     * the open. */
    int32_t (*load_older)(void *user, uint32_t version, uint64_t object, ensile_bytes bytes, ensile_error *why);
    int32_t (*replay_older)(void *user, uint32_t version, uint64_t object, uint32_t operation,
                            const ensile_bytes *parameters, size_t parameters_count, ensile_error *why);
    /* Writes a checkpoint of the objects with the number `from` or a larger one, in the order of their numbers, each by
     * ensile_writer_ckpt under its guard. When that returns ENSILE_BLOCK_FULL: stores the number to go on from in *next,
     * and returns. *next is ENSILE_NO_OBJECT before: there is no further object. NULL with the two below. */
    int32_t (*checkpoint)(void *user, uint64_t from, ensile_writer *writer, uint64_t *next, ensile_error *why);
    /* In place of `checkpoint`, an iterator. `next_object`: the least number from `from` on that an object has, in
     * *object, which is ENSILE_NO_OBJECT before. `save_one`: that object, under its guard, by ensile_writer_ckpt; nothing
     * if it has gone meanwhile. NULL with `checkpoint`. */
    int32_t (*next_object)(void *user, uint64_t from, uint64_t *object, ensile_error *why);
    int32_t (*save_one)(void *user, uint64_t object, ensile_writer *writer, ensile_error *why);
} ensile_application;

/* An application's log and checkpoints, open. */
typedef struct ensile_objects ensile_objects;

/* An operation that was logged: durable with all of epochs up to this one. A number and no more: copied at will, ended
 * by nothing. Of two of one handle the one with the larger epoch stands for both. */
typedef struct ensile_receipt {
    uint64_t epoch;
} ensile_receipt;

/* Opens a folder, which is made if it is not there, and loads and replays what is in it by the call-backs. `settings`:
 * NULL for the usual ones. */
ensile_code ensile_objects_open(const char *folder, const ensile_settings *settings, const ensile_application *application,
                                ensile_objects **objects, ensile_error *error);

/* Logs an operation on an object. The caller holds the object's guard, and changes the object behind this, under the
 * same hold. An error: nothing was logged, and the object must not be changed. ENSILE_OK: the object must be changed;
 * nothing that can fail stands between. `receipt`: its receipt, or NULL.
 * It may wait for the disk where more is logged than that can take, and never for a call-back. */
ensile_code ensile_objects_log(ensile_objects *objects, uint64_t object, uint32_t operation, const ensile_bytes *parameters,
                               size_t parameters_count, ensile_receipt *receipt, ensile_error *error);
/* Makes a change that was logged. It returns, and nothing in it fails. It is a call-back: it calls no function of an
 * ensile_objects. */
typedef void (*ensile_make)(void *argument);
/* As ensile_objects_log, and then calls make(argument), which changes the object: under the guard that the caller holds
 * over this, and on its thread. What that takes is measured, of one change in 64, so that ENSILE_POLICY_RECOVERY_MILLIS
 * follows changes that become dearer. A program makes all its changes so, or none: of those that it makes behind
 * ensile_objects_log nothing is known once one was measured. An error: nothing was logged, and nothing is made. */
ensile_code ensile_objects_change(ensile_objects *objects, uint64_t object, uint32_t operation,
                                  const ensile_bytes *parameters, size_t parameters_count, ensile_make make, void *argument,
                                  ensile_receipt *receipt, ensile_error *error);
/* Waits until an operation is durable. The caller holds no guard. */
ensile_code ensile_objects_durable(ensile_objects *objects, ensile_receipt receipt, ensile_error *error);
/* Whether it is durable by now, in *durable. */
ensile_code ensile_objects_is_durable(ensile_objects *objects, ensile_receipt receipt, bool *durable,
                                      ensile_error *error);

/* Why a checkpoint begins, or began. Figures have these as uint64_t. */
enum {
    ENSILE_REASON_NONE = 0,
    /* The program asked. */
    ENSILE_REASON_DEMAND = 1,
    /* Time has passed, and the log has grown. */
    ENSILE_REASON_INTERVAL = 2,
    /* The log has as many bytes, or as many operations, as it may have. */
    ENSILE_REASON_LOG_BYTES = 3,
    ENSILE_REASON_LOG_RECORDS = 4,
    /* It has as many as it may have at this load, or as much time has passed as may, and the log has grown. */
    ENSILE_REASON_ADAPTIVE = 5,
    /* Recovery would take as long as it may. */
    ENSILE_REASON_RECOVERY = 6,
    /* One that a later version of the library has. */
    ENSILE_REASON_OTHER = 7
};

/* Whether a checkpoint was to begin when that was looked at last. Figures have these as uint64_t. */
enum {
    /* Nobody has looked yet. */
    ENSILE_VERDICT_NOT_LOOKED = 0,
    ENSILE_VERDICT_BEGINS = 1,
    /* No: nothing that was counted has reached what was set. */
    ENSILE_VERDICT_NOT_DUE = 2,
    /* No: the time has come, and the log has hardly grown. */
    ENSILE_VERDICT_HARDLY_GREW = 3,
    /* No: the last one has failed, and a while is to pass. */
    ENSILE_VERDICT_AFTER_FAILURE = 4,
    /* No: the log waits for space on its disk. */
    ENSILE_VERDICT_LOG_IS_FULL = 5,
    /* One that a later version of the library has. */
    ENSILE_VERDICT_OTHER = 6
};

/* A checkpoint that was made. */
typedef struct ensile_checkpoint_report {
    uint64_t number;
    uint64_t entries;
    uint64_t bytes;
    uint64_t micros;
    /* ENSILE_REASON_.. */
    uint64_t reason;
    /* How a threshold that follows the load stood when it was decided that this one begins: the load, which is below 0
     * where none did; what a second is all that can be done; an ENSILE_MEASURE_..; the threshold at this load; and what
     * it was compared with. */
    double load;
    uint64_t capacity;
    uint64_t measure;
    uint64_t threshold;
    uint64_t reached;
} ensile_checkpoint_report;

/* Asks for a checkpoint that begins from now on, and does not wait. */
ensile_code ensile_objects_ask_checkpoint(ensile_objects *objects, ensile_error *error);
/* Asks for one and waits for it. The caller holds no guard. `report`: its figures, `size` is sizeof *report; or NULL. */
ensile_code ensile_objects_checkpoint(ensile_objects *objects, ensile_checkpoint_report *report, size_t size,
                                      ensile_error *error);
/* Checkpoints begin by the policy of these settings from now on. */
ensile_code ensile_objects_register_policy(ensile_objects *objects, const ensile_settings *settings, ensile_error *error);

/* The application has served so many requests since it said so last, and lost so many for want of capacity. The load of
 * an adaptive policy is the rate of requests from then on. To be called about once a second. */
ensile_code ensile_objects_report_requests(ensile_objects *objects, uint64_t served, uint64_t lost, ensile_error *error);

/* Figures. */
typedef struct ensile_stats {
    /* E, and D: all operations of epochs up to this survive a crash. */
    uint64_t epoch;
    uint64_t durable_epoch;
    /* Since the open: written to the log, durable marks included in its bytes; and its syncs. */
    uint64_t log_bytes;
    uint64_t log_entries;
    uint64_t log_syncs;
    /* The log on disk now. */
    uint64_t log_files;
    uint64_t log_file_bytes;
    /* Since the open: checkpoints made, given up, and what they wrote. */
    uint64_t checkpoints;
    uint64_t checkpoints_failed;
    uint64_t checkpoint_entries;
    uint64_t checkpoint_bytes;
    /* The load, where the policy follows it: 1 is the capacity; below 0 where it does not. And the threshold at this
     * load, in bytes or in records; 0 where it is not of these. */
    double load;
    uint64_t log_bytes_threshold;
    uint64_t log_records_threshold;
    /* What the next open would take if the process ended now, as far as that is known. */
    uint64_t recovery_micros;
    /* What a second is all that can be done, where the load is a share of it: as set, or as probed. Else 0. */
    uint64_t capacity;
    /* ENSILE_VERDICT_.., and the ENSILE_REASON_.. of one that begins. */
    uint64_t checkpoint_verdict;
    uint64_t checkpoint_verdict_reason;
    /* ENSILE_REASON_.. of the last one that was made since the open. */
    uint64_t checkpoint_last_reason;
    /* 1: no checkpoint keeps the recovery time that is set, as loading alone takes longer. An open is not refused for
     * it. ENSILE_TEXT_UNREACHABLE has the figure. */
    uint64_t recovery_unreachable;
    /* The threshold at this load, in milliseconds; 0 where it is not of time. */
    uint64_t interval_threshold_millis;
    /* What making a change takes, as far as that is known: as ensile_objects_change measures it, or, in a program that
     * calls ensile_objects_log alone, as replaying took at opens. */
    uint64_t applied_nanos;
} ensile_stats;

/* Figures, in *stats. `size` is sizeof *stats: a later library fills what the caller has. */
ensile_code ensile_objects_stats(ensile_objects *objects, ensile_stats *stats, size_t size, ensile_error *error);

/* Why something does not happen, in words. */
typedef uint32_t ensile_text;
enum {
    /* What went wrong last with a checkpoint, or with the removal of files that one covers. */
    ENSILE_TEXT_LAST_ERROR = 1,
    /* Why no checkpoint keeps the recovery time that is set. */
    ENSILE_TEXT_UNREACHABLE = 2,
    /* Why the next checkpoint is put off: it does not fit on the disk. */
    ENSILE_TEXT_MISFIT = 3,
    /* Why checkpoints do not give way by as much as was set. */
    ENSILE_TEXT_NICENESS_REFUSED = 4,
    /* What a process-safe life had returned and the open could not take, as the folder is a copy, or the system was
     * started since: how much, of which epochs, and what to do. It is not there. */
    ENSILE_TEXT_NOT_PROVEN = 5,
    /* Which mapped files of a process-safe life were changed after its process had died, and what to do. The open has
     * taken them all the same: nothing is known to be missing, and ENSILE_TEXT_NOT_PROVEN is empty then. */
    ENSILE_TEXT_CHANGED = 6
};
/* One of these, in the `size` bytes at `text`: it ends with a zero, is cut if it is longer, and is empty where nothing
 * stands in the way. */
ensile_code ensile_objects_text(ensile_objects *objects, ensile_text what, char *text, size_t size, ensile_error *error);

/* What recovery found and did when the folder was opened. */
typedef struct ensile_recovery {
    /* D of the life before: operations of epochs up to this are there. */
    uint64_t durable_epoch;
    /* 1 for a new folder. */
    uint64_t generation;
    uint64_t checkpoint_entries;
    uint64_t checkpoint_bytes;
    /* Operations that were read from the log, and those that never became durable. */
    uint64_t log_entries;
    uint64_t log_entries_ignored;
} ensile_recovery;

/* In *recovery. `size` is sizeof *recovery. */
ensile_code ensile_objects_recovery(ensile_objects *objects, ensile_recovery *recovery, size_t size, ensile_error *error);

/* Makes the folder, which no process has open, one of its own: a copy of another one, a restored, moved or fenced one,
 * which an open refuses with ENSILE_WRONG_FOLDER. The original is not to be used beside it under the same identity, and
 * need not be there. `without_buffers`: 1 gives up what a process-safe life has returned and only its own folder proves;
 * otherwise such a folder is refused, and nothing is changed. */
ensile_code ensile_folder_adopt(const char *folder, uint32_t without_buffers, ensile_error *error);

/* Makes all that was logged durable and lets go of the folder. The caller holds no guard. Two threads may close: both
 * return once it is closed. A second call returns what the first did. */
ensile_code ensile_objects_close(ensile_objects *objects, ensile_error *error);
/* Closes, and ends the handle; NULL is nothing. No other call may use the handle meanwhile or later; after
 * ENSILE_IN_CALL_BACK and ENSILE_INVALID it was not ended. */
ensile_code ensile_objects_free(ensile_objects *objects, ensile_error *error);

#ifdef __cplusplus
}
#endif

#endif
