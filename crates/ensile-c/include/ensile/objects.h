/*
 * Ensile: a program's own objects, made persistent (the paper's SLACH). C99, and C++ (objects.hpp has a wrapper).
 *
 * A program keeps its objects in its own memory, each with a number and a guard, a lock of the program. The program
 * logs each change as an operation before it makes the change. Checkpoints write the objects one by one, while the
 * program goes on. After a crash each object is loaded from the checkpoint, and the later operations are replayed.
 *
 * Discipline. The program holds an object's guard over ensile_objects_log AND the change of the object after the call,
 * and over the encoding of the object's bytes AND ensile_writer_ckpt. Without the guard a crash may lose an operation
 * that was durable. Operations are deterministic, and depend on their own object only. The checkpoint's call-back can
 * find a new object whose first operation is not yet logged.
 *
 * Changes that fail. If a change fails after its log entry, the operation is logged and the object lacks the change.
 * A checkpoint of the object would then lose a durable operation. So the object is poisoned. Until the next open of
 * the folder the object is refused, and no checkpoint is made. The next open makes the change again. A `make` of
 * ensile_objects_change that reports a failure poisons its object. After ensile_objects_log the program calls
 * ensile_objects_poison, or better has all steps that can fail before the log. The library refuses operations on a
 * poisoned object (ENSILE_POISONED); the program refuses the object to its own readers (ensile_objects_is_poisoned).
 *
 * Objects that come and go. A checkpoint after the removal of an object lacks the object. The log may still have
 * operations from before the removal. With the setting ENSILE_MARK_LIVES the program marks creations and removals,
 * by ensile_objects_log_life, and recovery passes over operations on an object that does not exist. Without the
 * setting, replay_one must accept operations on a missing object, and a removal must not depend on the object's
 * state.
 *
 * Versions. Every object and operation is written with the `version` of the application. Bytes of an older program
 * go to load_older and replay_older, which make an object or an operation of today (an up-cast). Without these
 * call-backs the open fails and names both versions, and so does an open of bytes of a newer program. The failed
 * open changes nothing. A program that knows the version can still open the folder. A checkpoint writes every object
 * in the present version.
 *
 * Calls. Every function can be called from any thread. Several threads may call functions of one ensile_objects at
 * once, except for ensile_objects_free. One thread at a time uses a handle of settings. A call-back calls
 * ensile_writer_ckpt and ensile_writer_absent. Any other function of an ensile_objects returns ENSILE_IN_CALL_BACK
 * to a call-back. A call-back must not wait for another thread that calls such a function: the library does not
 * notice, and both may wait for ever.
 *
 * Ownership. The caller owns the handles from ensile_settings_new, ensile_objects_open and
 * ensile_objects_open_checked until the matching free function. Passed bytes, strings and structs are copied, or
 * used until the call returns. The library owns the bytes that a call-back gets, until the call-back returns. The
 * caller owns `user`, and the copy's `user` of ensile_objects_open_checked. Both live until ensile_objects_close or
 * ensile_objects_free has returned ENSILE_OK or an error of the log, or until the open has returned an error. No
 * call-back runs from then on.
 *
 * Pointers. The library notices NULL, a handle of another kind, a writer whose call-back has returned, and a closed
 * handle: the call returns a code. The library does not notice a freed handle: a freed handle must not be used or
 * freed again.
 *
 * In Rust alone (ensile-objects): shipping to a shared store (ObjectsBuilder::ship_to) and take-over from the store
 * (take_over); futures for receipts; the replay of a recorded folder against the present program
 * (ApplicationLog::check); a log without threads of its own (ObjectsBuilder::without_threads and drive); and
 * checkpoints in slices by several threads (Application::slice_starts), while an application in C has a single
 * slice, written by a single checkpointer.
 *
 * Unwinding. A panic inside the library becomes ENSILE_PANICKED. A call-back must return: no exception and no
 * longjmp leaves a call-back (objects.hpp catches exceptions).
 */
#ifndef ENSILE_OBJECTS_H
#define ENSILE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header's declarations. ensile_objects_open compares it with the library's version. */
#define ENSILE_ABI_VERSION 4

/* Marker for "no object". The number of every object is smaller. */
#define ENSILE_NO_OBJECT UINT64_MAX

/* Outcome of a call. The text in an ensile_error has the remedy. */
typedef int32_t ensile_code;
enum {
    ENSILE_OK = 0,
    /* ensile_writer_..: the object was taken, and there is no room for another object. The call-back returns. */
    ENSILE_BLOCK_FULL = 1,
    /* The call is wrong, and nothing was done: mend the call. */
    ENSILE_INVALID = 2,
    /* Header and library are of different versions. Nothing was opened. */
    ENSILE_ABI_MISMATCH = 3,
    /* A call-back called a forbidden function. Nothing was done. */
    ENSILE_IN_CALL_BACK = 4,
    /* The handle is closed. Nothing was done. */
    ENSILE_CLOSED = 5,
    /* Nothing was done: try again once the cause is gone (a full disk, a folder in use). */
    ENSILE_TRY_AGAIN = 6,
    /* The log has stopped, and nothing was done: open again. */
    ENSILE_STOPPED = 7,
    /* Logged, and not durable yet: the operation becomes durable once the cause is gone. Do not run it again. */
    ENSILE_NOT_DURABLE_YET = 8,
    /* The outcome is known after the next open of the folder. */
    ENSILE_OUTCOME_UNKNOWN = 9,
    /* No checkpoint was made. Nothing else is lost. */
    ENSILE_CHECKPOINT_FAILED = 10,
    /* The folder is not the meant folder. Nothing was changed. */
    ENSILE_WRONG_FOLDER = 11,
    /* Durable data cannot be read back: restore the folder from a copy. */
    ENSILE_DAMAGED = 12,
    /* A call-back, or this version, does not understand an object or an operation. Nothing was opened. */
    ENSILE_NOT_UNDERSTOOD = 13,
    /* This process was forked from the process that has the folder open. */
    ENSILE_FORKED = 14,
    /* A caught bug of the library. Close, and open again. */
    ENSILE_PANICKED = 15,
    /* The text has the reason; also for codes of a later version of the library. */
    ENSILE_FAILED = 16,
    /* A change of the object has failed after its log entry. The object is refused, and no checkpoint is made, until
     * the folder is opened again, which makes the change again. If `make` failed in this call, the operation is
     * logged. Otherwise this call logged nothing. */
    ENSILE_POISONED = 17
};

/* Name of a code in lower case; "unknown" for any other number. The name lives as long as the library. */
const char *ensile_code_name(ensile_code code);

/* Version of the library: ENSILE_ABI_VERSION of the library's own header. */
uint32_t ensile_abi_version(void);

/* Outcome of a call in words. The memory is the caller's, one for each call under way; or NULL. */
typedef struct ensile_error {
    ensile_code code;
    /* Ends with a zero; empty after ENSILE_OK; a longer text is cut. */
    char message[1020];
} ensile_error;

/* Borrowed bytes. `data` may be NULL if `size` is 0. */
typedef struct ensile_bytes {
    const void *data;
    size_t size;
} ensile_bytes;

/* Settings, used by one thread at a time. */
typedef struct ensile_settings ensile_settings;

typedef uint32_t ensile_setting;
enum {
    /* Number of loggers that write in parallel, each in files of its own. 1 by default. */
    ENSILE_LOGGERS = 1,
    /* Number of checkpointers of the folder. 1 by default; a single checkpointer writes an application's objects. */
    ENSILE_CHECKPOINTERS = 2,
    /* Number of threads that recover. By default the number of the machine's threads. */
    ENSILE_RECOVERY_THREADS = 3,
    /* Time between two epochs, at least 1000: a crash takes at most this time of results without a wait. */
    ENSILE_EPOCH_INTERVAL_MICROS = 4,
    /* Length at which a log begins a new file. */
    ENSILE_LOG_FILE_BYTES = 5,
    /* Largest rate of checkpoints; unlimited by default. */
    ENSILE_CHECKPOINT_BYTES_PER_SECOND = 6,
    /* 1: a returned ensile_objects_log survives the death of the process, however the process dies. A crash of the
     * machine takes the results that are not durable. The file system is ext4, XFS, F2FS or tmpfs. 0 by default. */
    ENSILE_PROCESS_SAFE = 7,
    /* 0 to 19, 0 by default: niceness of the checkpoints' threads, added to the niceness of the opening thread.
     * Responses are faster beside a checkpoint. On fully busy cores a checkpoint may take minutes, while the log
     * grows: with 10, beside twenty busy threads on two cores, a checkpointer gets 1 % of a core. */
    ENSILE_CHECKPOINT_NICENESS = 8,
    /* 1: nothing is logged, and only checkpoints keep changes. The program requests checkpoints, or sets a policy of
     * time. ensile_objects_log is called as usual. Its receipts are never durable, and a wait for a receipt is
     * ENSILE_INVALID. After a failed change no checkpoint is made, so every further change of any object is
     * ENSILE_POISONED. No open makes the failed change again: the next open has the objects of the last checkpoint.
     * 0 by default. Of this setting and ENSILE_PROCESS_SAFE the last one set counts. */
    ENSILE_NOT_LOGGED = 9,
    /* 1: the folder ends shipping, and forgets its shared store. Without this setting the open refuses a folder that
     * ships, because another machine may have taken over. Only a program in Rust ships. 0 by default. */
    ENSILE_STOP_SHIPPING = 10,
    /* 1: the open accepts a fenced folder, from which another machine has taken over. The data of the folder can be
     * read, and each change is ENSILE_STOPPED. 0 by default. */
    ENSILE_OPEN_FENCED = 11,
    /* 1: the program marks creations and removals of objects by ensile_objects_log_life, and ensile_objects_log
     * marks a change of an existing object. Recovery passes over changes and removals of an object that does not
     * exist. For recovery an object exists if the checkpoint has its bytes, or if the log has its creation. So the
     * program marks every creation, and checkpoints write every existing object. If recovery would lose changes, the
     * open fails with ENSILE_NOT_UNDERSTOOD, and changes nothing. An open without the setting replays every
     * operation, with a mark or without. The setting can be given to an existing folder. Operations without marks
     * are always replayed, so replay_one accepts unknown objects until the first checkpoint with the setting. 0 by
     * default. */
    ENSILE_MARK_LIVES = 12,
    /* 1: an object whose load_one or replay_one fails is poisoned, and the open goes on. Later operations on the
     * object are not replayed. The object may be half changed, so the program must not show the object. An open by a
     * mended program replays all operations. 0 by default: a failing call-back fails the open. */
    ENSILE_OPEN_POISONED = 13,

    /* The policy: the triggers of checkpoints. The first trigger that is reached begins a checkpoint. 0 switches a
     * trigger off. Without any of these settings a checkpoint begins 10 seconds after the last one if the log has
     * grown, or after 4 GiB of log. A setting changes its own trigger alone, except ENSILE_POLICY_ADAPTIVE_CAPACITY
     * and ENSILE_POLICY_ON_DEMAND. The order of the settings matters for ENSILE_POLICY_ON_DEMAND alone. */
    /* The only value is 0. No checkpoint begins without a request. The setting cancels all earlier settings of the
     * policy. */
    ENSILE_POLICY_ON_DEMAND = 32,
    /* Bytes of log since the last checkpoint began. */
    ENSILE_POLICY_LOG_BYTES = 33,
    /* Logged operations since the last checkpoint began. */
    ENSILE_POLICY_LOG_RECORDS = 34,
    /* Time since the last checkpoint ended, if the log has grown. */
    ENSILE_POLICY_INTERVAL_MILLIS = 35,
    /* Longest permitted recovery. A checkpoint begins before the estimated recovery takes longer. */
    ENSILE_POLICY_RECOVERY_MILLIS = 36,
    /* A number of log bytes, of records or of milliseconds that follows the load (SLACH section 4). The capacity is
     * the largest rate of the service: requests a second if the program reports requests, otherwise bytes or records
     * a second. A threshold in milliseconds uses the same rate. The setting replaces the 10 seconds and the 4 GiB,
     * unless they are set. The settings below default to the paper's table 3 for its first service; bounds of bytes
     * and of time are this library's. */
    ENSILE_POLICY_ADAPTIVE_CAPACITY = 37,
    /* LB and UB. By default 1,000,000 and 8,000,000 records; 512 MiB and 4 GiB; 10,000 and 80,000 milliseconds. */
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
    /* Unit of LB and UB: an ENSILE_MEASURE_.., bytes by default. */
    ENSILE_POLICY_ADAPTIVE_MEASURE = 45,
    /* 1: the capacity becomes the rate at which 5 % of the reported requests are lost. 0 by default. */
    ENSILE_POLICY_ADAPTIVE_PROBED = 46
};

/* Figures have these numbers as uint64_t. */
enum {
    /* Bytes of log since the last checkpoint began. */
    ENSILE_MEASURE_BYTES = 0,
    /* Records since the last checkpoint began: logged operations. */
    ENSILE_MEASURE_RECORDS = 1,
    /* Milliseconds since the last checkpoint ended; no checkpoint begins before the log has grown. */
    ENSILE_MEASURE_TIME = 2
};

typedef uint32_t ensile_folder;
enum {
    /* Folder for the files of a further logger. The number of these folders is the number of loggers. */
    ENSILE_LOG_FOLDER = 1,
    /* Folder for the files of a further checkpointer. The number of these folders is the number of checkpointers. */
    ENSILE_CHECKPOINT_FOLDER = 2
};

/* Makes the usual settings, in *settings. */
ensile_code ensile_settings_new(ensile_settings **settings, ensile_error *error);
/* Changes a setting. ENSILE_INVALID: no such setting, or not a value of the setting. */
ensile_code ensile_settings_set(ensile_settings *settings, ensile_setting setting, uint64_t value, ensile_error *error);
/* Adds a folder on another device. Links in the main folder remember the added folders. */
ensile_code ensile_settings_add_folder(ensile_settings *settings, ensile_folder what, const char *folder,
                                       ensile_error *error);
/* Name of the application, and of its part in this folder, as in "prices, partition 0 of 4". A folder without a name
 * gets the name at the open, and keeps the name. From then on ensile_objects_open fails with ENSILE_WRONG_FOLDER if
 * the settings have another name or no name. `ensile objects name` changes the name. The name is printable ASCII of
 * 1 to 255 bytes, without a space at either end: anything else is ENSILE_INVALID. */
ensile_code ensile_settings_application_name(ensile_settings *settings, const char *name, ensile_error *error);
/* Frees the handle; NULL has no effect. No other call may use the handle meanwhile. */
ensile_code ensile_settings_free(ensile_settings *settings, ensile_error *error);

/* Takes objects for a checkpoint, within a call-back and on the call-back's thread. */
typedef struct ensile_writer ensile_writer;

/* Takes an object's bytes. The caller has held the object's guard since the making of the bytes. Objects come in the
 * order of their numbers. ENSILE_OK: go on with the next object. ENSILE_BLOCK_FULL: the object was taken; the
 * call-back returns with the number to go on from. Another code: the checkpoint is given up, and the call-back
 * returns. */
ensile_code ensile_writer_ckpt(ensile_writer *writer, uint64_t object, const void *data, size_t size);
/* Notes that no object has this number, after operations on the object: recovery does not replay these operations.
 * The call is needed only without ENSILE_MARK_LIVES, if the replay of a removal depends on the object's state.
 * Returns as ensile_writer_ckpt. */
ensile_code ensile_writer_absent(ensile_writer *writer, uint64_t object);

/* Call-backs of an application that keeps its own objects. Any thread of the library may call them, and several
 * threads may call at once. A call-back returns 0, or another number and the reason in *why. `why` is never NULL,
 * and the code in *why is ignored. */
typedef struct ensile_application {
    /* ENSILE_ABI_VERSION. */
    uint32_t abi_version;
    /* Version of everything that this application writes: the objects' bytes, the numbers of the operations and their
     * parameters. At most 65535. Raise the version when one of these changes. */
    uint32_t version;
    /* Argument of every call-back. */
    void *user;
    /* Loads an object from its bytes in the checkpoint, at the open, once for each object. */
    int32_t (*load_one)(void *user, uint64_t object, ensile_bytes bytes, ensile_error *why);
    /* Replays a logged operation with its parameters, at the open. The operations of an object come in order, one at a
     * time. */
    int32_t (*replay_one)(void *user, uint64_t object, uint32_t operation, const ensile_bytes *parameters,
                          size_t parameters_count, ensile_error *why);
    /* As load_one and replay_one, for bytes and operations of an older version of the program. NULL: older bytes and
     * operations fail the open. */
    int32_t (*load_older)(void *user, uint32_t version, uint64_t object, ensile_bytes bytes, ensile_error *why);
    int32_t (*replay_older)(void *user, uint32_t version, uint64_t object, uint32_t operation,
                            const ensile_bytes *parameters, size_t parameters_count, ensile_error *why);
    /* Writes the objects with the number `from` or a larger number, in the order of numbers, each by
     * ensile_writer_ckpt under its guard. At ENSILE_BLOCK_FULL the call-back stores the number to go on from in
     * *next, and returns. Before the call, *next is ENSILE_NO_OBJECT. An unchanged *next means that no further
     * object exists. NULL if the two call-backs below are given. */
    int32_t (*checkpoint)(void *user, uint64_t from, ensile_writer *writer, uint64_t *next, ensile_error *why);
    /* An iterator in place of `checkpoint`. `next_object` stores in *object the smallest number, at least `from`, of an
     * existing object. Before the call, *object is ENSILE_NO_OBJECT. `save_one` writes the object under its guard by
     * ensile_writer_ckpt, or nothing if the object was removed meanwhile. NULL if `checkpoint` is given. */
    int32_t (*next_object)(void *user, uint64_t from, uint64_t *object, ensile_error *why);
    int32_t (*save_one)(void *user, uint64_t object, ensile_writer *writer, ensile_error *why);
} ensile_application;

/* The log and the checkpoints of an application, open. */
typedef struct ensile_objects ensile_objects;

/* Receipt of a logged operation: the operation is durable with all operations of epochs up to this epoch. A number,
 * which may be copied, and which nobody frees. Of two receipts of one handle, the receipt with the larger epoch
 * covers both. */
typedef struct ensile_receipt {
    uint64_t epoch;
} ensile_receipt;

/* Opens a folder, and makes a missing folder. Loads and replays the contents by the call-backs. `settings`: NULL for
 * the usual settings. */
ensile_code ensile_objects_open(const char *folder, const ensile_settings *settings, const ensile_application *application,
                                ensile_objects **objects, ensile_error *error);
/* As ensile_objects_open, in a debug mode for tests. `copy` has a second instance of the application in `user`, as
 * the program makes it before the first object. The library loads the objects into the copy by its load_one, and
 * replays every logged operation on the copy, within the log call. A checkpoint compares the bytes that the
 * application and the copy write for each object. The first difference fails the checkpoint and all later
 * checkpoints: ENSILE_TEXT_DIFFERENCE has the difference. The mode finds operations with another outcome at replay,
 * changes without a log entry, a guard that is not held, and state that does not come back from an object's bytes.
 * ENSILE_FAILED: an object does not come back from its bytes; the folder was opened and closed then. The call-backs
 * of the copy take no guard of the application's. */
ensile_code ensile_objects_open_checked(const char *folder, const ensile_settings *settings,
                                        const ensile_application *application, const ensile_application *copy,
                                        ensile_objects **objects, ensile_error *error);

/* Logs an operation on an object. The caller holds the object's guard, and changes the object after the call, under
 * the same hold. An error: nothing was logged, and the object must not be changed. ENSILE_OK: the object must be
 * changed, and no step that can fail may come between the call and the change. `receipt`: place of the receipt, or
 * NULL. The call may wait for the disk if the log grows faster than the disk can write, and never waits for a
 * call-back. */
ensile_code ensile_objects_log(ensile_objects *objects, uint64_t object, uint32_t operation, const ensile_bytes *parameters,
                               size_t parameters_count, ensile_receipt *receipt, ensile_error *error);

/* Mark of an operation for the life of its object (ENSILE_MARK_LIVES). */
typedef uint32_t ensile_life;
enum {
    /* The operation makes the object. The operation sets the whole state. An object with the number may exist
     * already. */
    ENSILE_LIFE_CREATION = 1,
    /* The operation changes an existing object, as ensile_objects_log marks. */
    ENSILE_LIFE_CHANGE = 2,
    /* The operation removes an existing object. */
    ENSILE_LIFE_REMOVAL = 3
};
/* As ensile_objects_log, with a mark. ENSILE_INVALID if the folder was opened without ENSILE_MARK_LIVES. */
ensile_code ensile_objects_log_life(ensile_objects *objects, uint64_t object, ensile_life life, uint32_t operation,
                                    const ensile_bytes *parameters, size_t parameters_count, ensile_receipt *receipt,
                                    ensile_error *error);

/* Makes a logged change. The function returns 0, or another number if the change has failed: the object is poisoned
 * then. It is a call-back, and calls no function of an ensile_objects. */
typedef int32_t (*ensile_make)(void *argument);
/* As ensile_objects_log, and then calls make(argument), which changes the object, under the caller's guard and on
 * the caller's thread. The duration of one change in 64 is measured, so that ENSILE_POLICY_RECOVERY_MILLIS follows
 * changes that become dearer. A program makes all its changes by this function or none. After the first measurement
 * the policy does not count changes made after ensile_objects_log. ENSILE_POISONED: the object is poisoned; if
 * `make` was called, the operation is logged, and the receipt stored. Another error: nothing was logged, and `make`
 * was not called. */
ensile_code ensile_objects_change(ensile_objects *objects, uint64_t object, uint32_t operation,
                                  const ensile_bytes *parameters, size_t parameters_count, ensile_make make, void *argument,
                                  ensile_receipt *receipt, ensile_error *error);
/* As ensile_objects_change, with a mark. ENSILE_INVALID if the folder was opened without ENSILE_MARK_LIVES. */
ensile_code ensile_objects_change_life(ensile_objects *objects, uint64_t object, ensile_life life, uint32_t operation,
                                       const ensile_bytes *parameters, size_t parameters_count, ensile_make make,
                                       void *argument, ensile_receipt *receipt, ensile_error *error);
/* Poisons an object whose change failed after ensile_objects_log. The caller still holds the object's guard. The
 * function works during a close, too. */
ensile_code ensile_objects_poison(ensile_objects *objects, uint64_t object, ensile_error *error);
/* Stores true in *poisoned if an object is poisoned. The caller holds the object's guard. */
ensile_code ensile_objects_is_poisoned(ensile_objects *objects, uint64_t object, bool *poisoned, ensile_error *error);
/* Waits until an operation is durable. The caller holds no guard. */
ensile_code ensile_objects_durable(ensile_objects *objects, ensile_receipt receipt, ensile_error *error);
/* Stores true in *durable if an operation is durable by now. */
ensile_code ensile_objects_is_durable(ensile_objects *objects, ensile_receipt receipt, bool *durable,
                                      ensile_error *error);

/* Reason for a checkpoint. Figures have these numbers as uint64_t. */
enum {
    ENSILE_REASON_NONE = 0,
    /* A request of the program. */
    ENSILE_REASON_DEMAND = 1,
    /* Time has passed, and the log has grown. */
    ENSILE_REASON_INTERVAL = 2,
    /* The log has reached the set number of bytes, or of operations. */
    ENSILE_REASON_LOG_BYTES = 3,
    ENSILE_REASON_LOG_RECORDS = 4,
    /* The log has reached the threshold at this load; or the threshold's time has passed, and the log has grown. */
    ENSILE_REASON_ADAPTIVE = 5,
    /* A recovery would take the set time. */
    ENSILE_REASON_RECOVERY = 6,
    /* A reason of a later version of the library. */
    ENSILE_REASON_OTHER = 7
};

/* Last decision on a checkpoint. Figures have these numbers as uint64_t. */
enum {
    /* No decision was made yet. */
    ENSILE_VERDICT_NOT_LOOKED = 0,
    ENSILE_VERDICT_BEGINS = 1,
    /* None begins: no trigger has reached its number. */
    ENSILE_VERDICT_NOT_DUE = 2,
    /* None begins: the time has come, and the log has hardly grown. */
    ENSILE_VERDICT_HARDLY_GREW = 3,
    /* None begins: the last checkpoint has failed, and the pause after a failure is not over. */
    ENSILE_VERDICT_AFTER_FAILURE = 4,
    /* None begins: the log waits for space on its disk. */
    ENSILE_VERDICT_LOG_IS_FULL = 5,
    /* A verdict of a later version of the library. */
    ENSILE_VERDICT_OTHER = 6
};

/* Figures of a finished checkpoint. */
typedef struct ensile_checkpoint_report {
    uint64_t number;
    uint64_t entries;
    uint64_t bytes;
    uint64_t micros;
    /* ENSILE_REASON_.. */
    uint64_t reason;
    /* State of a threshold that follows the load, at the decision to begin. The load is below 0 without such a
     * threshold. Then the capacity a second; an ENSILE_MEASURE_..; the threshold at this load; and the number
     * compared with it. */
    double load;
    uint64_t capacity;
    uint64_t measure;
    uint64_t threshold;
    uint64_t reached;
} ensile_checkpoint_report;

/* Requests a checkpoint that begins after this call. The call does not wait. */
ensile_code ensile_objects_ask_checkpoint(ensile_objects *objects, ensile_error *error);
/* Requests a checkpoint and waits for its end. The caller holds no guard. `report`: its figures, with sizeof *report as
 * `size`; or NULL. */
ensile_code ensile_objects_checkpoint(ensile_objects *objects, ensile_checkpoint_report *report, size_t size,
                                      ensile_error *error);
/* Sets the policy of these settings from now on. */
ensile_code ensile_objects_register_policy(ensile_objects *objects, const ensile_settings *settings, ensile_error *error);

/* Reports the requests that the application has served since the last report, and the requests lost for want of
 * capacity. From then on the load of an adaptive policy is the rate of requests. Call about once a second. */
ensile_code ensile_objects_report_requests(ensile_objects *objects, uint64_t served, uint64_t lost, ensile_error *error);

/* Figures of open objects. */
typedef struct ensile_stats {
    /* E, and D: all operations of epochs up to D survive a crash. */
    uint64_t epoch;
    uint64_t durable_epoch;
    /* Log written since the open: bytes with the durable marks, entries, and syncs. */
    uint64_t log_bytes;
    uint64_t log_entries;
    uint64_t log_syncs;
    /* Log on disk now. */
    uint64_t log_files;
    uint64_t log_file_bytes;
    /* Checkpoints since the open: made, given up, and the written entries and bytes. */
    uint64_t checkpoints;
    uint64_t checkpoints_failed;
    uint64_t checkpoint_entries;
    uint64_t checkpoint_bytes;
    /* Load, if the policy follows the load: 1 is the capacity; below 0 otherwise. The threshold at this load in
     * bytes or in records; 0 for a threshold of another unit. */
    double load;
    uint64_t log_bytes_threshold;
    uint64_t log_records_threshold;
    /* Duration of the next open if the process ended now, as far as known. */
    uint64_t recovery_micros;
    /* Capacity a second, if the load is a share of it, as set or as probed; otherwise 0. */
    uint64_t capacity;
    /* ENSILE_VERDICT_.., and the ENSILE_REASON_.. of a checkpoint that begins. */
    uint64_t checkpoint_verdict;
    uint64_t checkpoint_verdict_reason;
    /* ENSILE_REASON_.. of the last checkpoint made since the open. */
    uint64_t checkpoint_last_reason;
    /* 1: no checkpoint keeps the set recovery time, because loading alone takes longer. An open is not refused for the
     * time. ENSILE_TEXT_UNREACHABLE has the figure. */
    uint64_t recovery_unreachable;
    /* Threshold at this load in milliseconds; 0 for a threshold of another unit. */
    uint64_t interval_threshold_millis;
    /* Duration of a change, as far as known: as ensile_objects_change measures it; in a program that calls
     * ensile_objects_log alone, the duration of a replay at earlier opens. */
    uint64_t applied_nanos;
    /* Number of poisoned objects. */
    uint64_t poisoned;
    /* A checkpoint's call-back without progress for 10 seconds or more, perhaps because it waits for a guard: the
     * object of the call-back, or the smallest number that the object can have, and the time in milliseconds. 0
     * milliseconds: there is no such call-back. Until the call-back returns no checkpoint ends, and a close waits. */
    uint64_t waiting_object;
    uint64_t waiting_millis;
} ensile_stats;

/* Stores figures in *stats. `size` is sizeof *stats: a later library fills the caller's struct. */
ensile_code ensile_objects_stats(ensile_objects *objects, ensile_stats *stats, size_t size, ensile_error *error);

/* Text that explains why an action did not happen. */
typedef uint32_t ensile_text;
enum {
    /* Last error of a checkpoint, or of the removal of files that a checkpoint covers. */
    ENSILE_TEXT_LAST_ERROR = 1,
    /* Reason why no checkpoint keeps the set recovery time. */
    ENSILE_TEXT_UNREACHABLE = 2,
    /* Reason why the next checkpoint is put off: the checkpoint does not fit on the disk. */
    ENSILE_TEXT_MISFIT = 3,
    /* Reason why checkpoints give way by less than set. */
    ENSILE_TEXT_NICENESS_REFUSED = 4,
    /* Results of a process-safe run that the open left out: the epoch before them, their files and the remedy. The
     * folder is a copy, or the system was restarted after the run. The objects may lack these results. */
    ENSILE_TEXT_NOT_PROVEN = 5,
    /* Mapped files of a process-safe life that were changed after the death of its process, and the remedy. The open
     * has taken the files all the same. No result is known to be missing, and ENSILE_TEXT_NOT_PROVEN is empty then. */
    ENSILE_TEXT_CHANGED = 6,
    /* First object that differs from the outcome of its operations, and the difference: see
     * ensile_objects_open_checked. */
    ENSILE_TEXT_DIFFERENCE = 7
};
/* Stores a text in the `size` bytes at `text`. The text ends with a zero, and a longer text is cut. It is empty
 * without an obstacle. */
ensile_code ensile_objects_text(ensile_objects *objects, ensile_text what, char *text, size_t size, ensile_error *error);

/* Figures of the recovery at the open. */
typedef struct ensile_recovery {
    /* D of the life before: the objects have all operations of epochs up to D. */
    uint64_t durable_epoch;
    /* 1 for a new folder. */
    uint64_t generation;
    uint64_t checkpoint_entries;
    uint64_t checkpoint_bytes;
    /* Operations that were read from the log, and operations that never became durable. */
    uint64_t log_entries;
    uint64_t log_entries_ignored;
    /* Operations among log_entries that were passed over, because their object does not exist (ENSILE_MARK_LIVES). */
    uint64_t log_entries_passed_over;
} ensile_recovery;

/* Stores figures in *recovery. `size` is sizeof *recovery. */
ensile_code ensile_objects_recovery(ensile_objects *objects, ensile_recovery *recovery, size_t size, ensile_error *error);

/* Gives a folder an identity of its own: a copied, restored, moved or fenced folder, which an open refuses with
 * ENSILE_WRONG_FOLDER. No process has the folder open. The original need not be there, and must not be used beside the
 * folder under the same identity. `without_buffers`: 1 gives up results of a process-safe run that only the original
 * folder can prove. 0 refuses a folder with such results, and changes nothing. */
ensile_code ensile_folder_adopt(const char *folder, uint32_t without_buffers, ensile_error *error);

/* Makes all logged operations durable and releases the folder. The caller holds no guard. Two threads may close:
 * both return after the close. A second call returns the outcome of the first. */
ensile_code ensile_objects_close(ensile_objects *objects, ensile_error *error);
/* Closes, and frees the handle; NULL has no effect. No other call may use the handle meanwhile or later. After
 * ENSILE_IN_CALL_BACK and ENSILE_INVALID the handle was not freed. */
ensile_code ensile_objects_free(ensile_objects *objects, ensile_error *error);

#ifdef __cplusplus
}
#endif

#endif
