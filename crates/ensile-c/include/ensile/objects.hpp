/*
 * Ensile's objects.h for C++17: classes that free their handles, exceptions in place of codes, and call-backs that
 * may throw. The rules of objects.h for guards, threads and call-backs hold here as well.
 *
 * An exception of a call-back becomes the reason for the failure of the open or of the checkpoint. The exception
 * does not pass through the library. The end of a thread by pthread_cancel within a call-back ends the process.
 *
 * Objects::change logs and makes a change. If the change throws, the object is poisoned, and the next open makes the
 * change again: no operation is lost. An exception between Objects::log and the change releases the guard, and the
 * object lacks a logged operation. The next checkpoint of the object then loses the operation. So a change after log
 * alone must not throw. Steps that can throw, such as an allocation, come before log.
 */
#ifndef ENSILE_OBJECTS_HPP
#define ENSILE_OBJECTS_HPP

#include <ensile/objects.h>

#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ensile {

/* Failure of a call: any code except ENSILE_OK. */
class Error : public std::runtime_error {
public:
    explicit Error(const ensile_error &error) : std::runtime_error(error.message), code_(error.code) {}
    ensile_code code() const noexcept { return code_; }

private:
    ensile_code code_;
};

namespace detail {

/* Calls, and throws a failure. */
template <class Call> void check(Call call) {
    ensile_error error;
    if (call(&error) != ENSILE_OK) {
        throw Error(error);
    }
}

/* Bytes of a parameter: text, bytes, or a value that can be copied by its bytes. */
inline ensile_bytes bytes_of(ensile_bytes bytes) { return bytes; }
inline ensile_bytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }
inline ensile_bytes bytes_of(const std::string &text) { return {text.data(), text.size()}; }
inline ensile_bytes bytes_of(const char *text) { return bytes_of(std::string_view(text)); }
template <class Value> ensile_bytes bytes_of(const Value &value) {
    static_assert(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>, "give bytes, text or a plain value");
    return {&value, sizeof value};
}

} // namespace detail

/* Reads a value from its bytes. */
template <class Value> Value value_of(const void *data, size_t size) {
    static_assert(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>, "ask for a plain value");
    if (size != sizeof(Value)) {
        throw std::invalid_argument("bytes of another length than the value's");
    }
    Value value;
    std::memcpy(&value, data, size);
    return value;
}

/* List of parameters of a logged operation. */
class Parameters {
public:
    Parameters(const ensile_bytes *bytes, size_t count) noexcept : bytes_(bytes), count_(count) {}
    size_t size() const noexcept { return count_; }
    /* Bytes of a parameter, until the call-back returns. */
    ensile_bytes operator[](size_t at) const {
        if (at >= count_) {
            throw std::out_of_range("an operation has fewer parameters");
        }
        return bytes_[at];
    }
    template <class Value> Value get(size_t at) const {
        const ensile_bytes bytes = (*this)[at];
        return value_of<Value>(bytes.data, bytes.size);
    }
    std::string_view text(size_t at) const {
        const ensile_bytes bytes = (*this)[at];
        return {static_cast<const char *>(bytes.data), bytes.size};
    }

private:
    const ensile_bytes *bytes_;
    size_t count_;
};

/* Takes objects for a checkpoint, within a call-back and on the call-back's thread. */
class Writer {
public:
    explicit Writer(ensile_writer *writer) noexcept : writer_(writer) {}
    /* Takes an object's bytes, under its guard. False: there is no further room, and the call-back returns. */
    bool ckpt(uint64_t object, const void *data, size_t size) { return went(ensile_writer_ckpt(writer_, object, data, size)); }
    template <class Value> bool ckpt(uint64_t object, const Value &value) {
        const ensile_bytes bytes = detail::bytes_of(value);
        return ckpt(object, bytes.data, bytes.size);
    }
    /* Notes that no object has this number, after operations on the object. False: as for ckpt. */
    bool absent(uint64_t object) { return went(ensile_writer_absent(writer_, object)); }

private:
    bool went(ensile_code code) {
        if (code != ENSILE_OK && code != ENSILE_BLOCK_FULL) {
            throw std::logic_error("the checkpoint is given up");
        }
        return code == ENSILE_OK;
    }
    ensile_writer *writer_;
};

/* An application that keeps its own objects. It outlives its Objects. */
class Application {
public:
    virtual ~Application() = default;
    /* Writes the objects with the number `from` or a larger number, in the order of numbers, each under its guard. When
     * Writer::ckpt returns false: returns the number to go on from. ENSILE_NO_OBJECT: there is no further object. */
    virtual uint64_t checkpoint(uint64_t from, Writer &out) = 0;
    virtual void load_one(uint64_t object, const void *data, size_t size) = 0;
    virtual void replay_one(uint64_t object, uint32_t operation, const Parameters &parameters) = 0;
    /* Version of everything that this application writes. Raise it when bytes, operations or parameters change. */
    virtual uint16_t version() const noexcept { return 0; }
    /* As load_one and replay_one, for bytes and operations of an older version. By default the open fails. */
    virtual void load_older(uint16_t version, uint64_t, const void *, size_t) { no_up_cast(version); }
    virtual void replay_older(uint16_t version, uint64_t, uint32_t, const Parameters &) { no_up_cast(version); }

private:
    [[noreturn]] void no_up_cast(uint16_t written) const {
        throw std::invalid_argument("it is of version " + std::to_string(written) + "; this program writes version " +
                                    std::to_string(version()) + ", and has no up-cast from that");
    }
};

/* An application that enumerates its objects by an iterator. */
class Enumerated : public Application {
public:
    /* Smallest number of an object from `from` on, or ENSILE_NO_OBJECT. */
    virtual uint64_t next_object(uint64_t from) = 0;
    /* Writes this object under its guard by Writer::ckpt, if the object still exists. */
    virtual void save_one(uint64_t object, Writer &out) = 0;

private:
    uint64_t checkpoint(uint64_t, Writer &) final { throw std::logic_error("an iterator is used"); }
};

/* Settings; the setters can be chained. */
class Settings {
public:
    Settings() { detail::check([&](ensile_error *error) { return ensile_settings_new(&settings_, error); }); }
    Settings(Settings &&other) noexcept : settings_(std::exchange(other.settings_, nullptr)) {}
    Settings &operator=(Settings &&other) noexcept {
        std::swap(settings_, other.settings_);
        return *this;
    }
    Settings(const Settings &) = delete;
    Settings &operator=(const Settings &) = delete;
    ~Settings() { ensile_settings_free(settings_, nullptr); }

    Settings &set(ensile_setting setting, uint64_t value) {
        detail::check([&](ensile_error *error) { return ensile_settings_set(settings_, setting, value, error); });
        return *this;
    }
    Settings &add_folder(ensile_folder what, const std::string &folder) {
        detail::check(
            [&](ensile_error *error) { return ensile_settings_add_folder(settings_, what, folder.c_str(), error); });
        return *this;
    }
    /* Name of the folder's application, as in "prices, partition 0 of 4". */
    Settings &application_name(const std::string &name) {
        detail::check(
            [&](ensile_error *error) { return ensile_settings_application_name(settings_, name.c_str(), error); });
        return *this;
    }
    const ensile_settings *get() const noexcept { return settings_; }

private:
    ensile_settings *settings_ = nullptr;
};

/* The log and the checkpoints of an application, open until the destructor. As a member of the application's class, the
 * Objects is declared after all members that the call-backs use, and the class is final. The library calls back before
 * the constructor of the class ends. */
class Objects {
public:
    Objects(const std::string &folder, Application &application, const Settings &settings = Settings()) {
        const ensile_application table = table_of(application);
        detail::check([&](ensile_error *error) {
            return ensile_objects_open(folder.c_str(), settings.get(), &table, &objects_, error);
        });
    }
    /* In the debug mode of ensile_objects_open_checked: `copy` is a second instance, as the program makes it before the
     * first object. It outlives the Objects, and text(ENSILE_TEXT_DIFFERENCE) has the first difference. */
    Objects(const std::string &folder, Application &application, Application &copy, const Settings &settings = Settings()) {
        const ensile_application table = table_of(application), copied = table_of(copy);
        detail::check([&](ensile_error *error) {
            return ensile_objects_open_checked(folder.c_str(), settings.get(), &table, &copied, &objects_, error);
        });
    }
    Objects(const Objects &) = delete;
    Objects &operator=(const Objects &) = delete;
    ~Objects() { ensile_objects_free(objects_, nullptr); }

    /* Logs an operation on an object. The caller holds the object's guard over the call and over the change after the
     * call. The change throws nothing; `change` is for a change that may throw. Parameters: text, bytes (ensile_bytes),
     * values that can be copied by their bytes. */
    template <class... Values> ensile_receipt log(uint64_t object, uint32_t operation, const Values &...values) {
        /* With a spare element: an array of no element does not exist. */
        const ensile_bytes parameters[] = {detail::bytes_of(values)..., ensile_bytes{nullptr, 0}};
        return log_list(object, operation, parameters, sizeof...(values));
    }
    /* As log, with a mark of the object's life: an ENSILE_LIFE_... The settings have ENSILE_MARK_LIVES. */
    template <class... Values>
    ensile_receipt log_life(uint64_t object, ensile_life life, uint32_t operation, const Values &...values) {
        const ensile_bytes parameters[] = {detail::bytes_of(values)..., ensile_bytes{nullptr, 0}};
        ensile_receipt receipt;
        detail::check([&](ensile_error *error) {
            return ensile_objects_log_life(objects_, object, life, operation, parameters, sizeof...(values), &receipt,
                                           error);
        });
        return receipt;
    }
    ensile_receipt log_list(uint64_t object, uint32_t operation, const ensile_bytes *parameters, size_t count) {
        ensile_receipt receipt;
        detail::check([&](ensile_error *error) {
            return ensile_objects_log(objects_, object, operation, parameters, count, &receipt, error);
        });
        return receipt;
    }
    /* As log, and then changes the object by make(), under the same guard. The duration is measured: see
     * ensile_objects_change. `make` calls no function of an Objects. If `make` throws, the object is poisoned, and
     * the exception is thrown here: until the next open the object is refused (ENSILE_POISONED), and no checkpoint
     * is made. */
    template <class Make, class... Values>
    ensile_receipt change(uint64_t object, uint32_t operation, Make &&make, const Values &...values) {
        const ensile_bytes parameters[] = {detail::bytes_of(values)..., ensile_bytes{nullptr, 0}};
        return changed(make, [&](ensile_make made, void *change, ensile_receipt *receipt, ensile_error *error) {
            return ensile_objects_change(objects_, object, operation, parameters, sizeof...(values), made, change, receipt,
                                         error);
        });
    }
    /* As change, with a mark of the object's life. */
    template <class Make, class... Values>
    ensile_receipt change_life(uint64_t object, ensile_life life, uint32_t operation, Make &&make, const Values &...values) {
        const ensile_bytes parameters[] = {detail::bytes_of(values)..., ensile_bytes{nullptr, 0}};
        return changed(make, [&](ensile_make made, void *change, ensile_receipt *receipt, ensile_error *error) {
            return ensile_objects_change_life(objects_, object, life, operation, parameters, sizeof...(values), made, change,
                                              receipt, error);
        });
    }
    /* Poisons an object whose change failed after log, under the object's guard. */
    void poison(uint64_t object) {
        detail::check([&](ensile_error *error) { return ensile_objects_poison(objects_, object, error); });
    }
    /* True if an object is poisoned: the program does not show the object. The caller holds the object's guard. */
    bool is_poisoned(uint64_t object) {
        bool poisoned = false;
        detail::check([&](ensile_error *error) { return ensile_objects_is_poisoned(objects_, object, &poisoned, error); });
        return poisoned;
    }
    /* Waits until an operation is durable, without a guard. */
    void durable(ensile_receipt receipt) {
        detail::check([&](ensile_error *error) { return ensile_objects_durable(objects_, receipt, error); });
    }
    bool is_durable(ensile_receipt receipt) {
        bool durable = false;
        detail::check(
            [&](ensile_error *error) { return ensile_objects_is_durable(objects_, receipt, &durable, error); });
        return durable;
    }
    void ask_checkpoint() {
        detail::check([&](ensile_error *error) { return ensile_objects_ask_checkpoint(objects_, error); });
    }
    /* Makes a checkpoint, without a guard. */
    ensile_checkpoint_report checkpoint() {
        ensile_checkpoint_report report;
        detail::check([&](ensile_error *error) {
            return ensile_objects_checkpoint(objects_, &report, sizeof report, error);
        });
        return report;
    }
    void register_policy(const Settings &settings) {
        detail::check(
            [&](ensile_error *error) { return ensile_objects_register_policy(objects_, settings.get(), error); });
    }
    void report_requests(uint64_t served, uint64_t lost) {
        detail::check(
            [&](ensile_error *error) { return ensile_objects_report_requests(objects_, served, lost, error); });
    }
    ensile_stats stats() {
        ensile_stats stats;
        detail::check(
            [&](ensile_error *error) { return ensile_objects_stats(objects_, &stats, sizeof stats, error); });
        return stats;
    }
    /* Reason of a missing action; empty without an obstacle. */
    std::string text(ensile_text what) {
        char text[1024];
        detail::check(
            [&](ensile_error *error) { return ensile_objects_text(objects_, what, text, sizeof text, error); });
        return text;
    }
    ensile_recovery recovery() {
        ensile_recovery recovery;
        detail::check(
            [&](ensile_error *error) { return ensile_objects_recovery(objects_, &recovery, sizeof recovery, error); });
        return recovery;
    }
    /* Makes all logged operations durable and releases the folder. The destructor ignores the failures that this call
     * throws. */
    void close() {
        detail::check([&](ensile_error *error) { return ensile_objects_close(objects_, error); });
    }

private:
    /* Logs a change by `call`, and makes the change by `make`. */
    template <class Make, class Call> static ensile_receipt changed(Make &make, Call call) {
        struct Change {
            Make *make;
            std::exception_ptr thrown;
        } change = {std::addressof(make), nullptr};
        const ensile_make made = [](void *argument) noexcept -> int32_t {
            Change &change = *static_cast<Change *>(argument);
            try {
                (*change.make)();
                return 0;
            } catch (...) {
                change.thrown = std::current_exception();
                return 1;
            }
        };
        ensile_receipt receipt;
        ensile_error error;
        const ensile_code code = call(made, &change, &receipt, &error);
        if (change.thrown) {
            std::rethrow_exception(change.thrown);
        }
        if (code != ENSILE_OK) {
            throw Error(error);
        }
        return receipt;
    }

    /* Calls the application, and turns an exception into the reason of a failure. */
    template <class Call> static int32_t call_back(ensile_error *why, Call call) noexcept {
        try {
            call();
            return 0;
        } catch (const std::exception &exception) {
            std::strncpy(why->message, exception.what(), sizeof why->message - 1);
        } catch (...) {
            std::strncpy(why->message, "an exception that is no std::exception", sizeof why->message - 1);
        }
        return 1;
    }

    /* Call-backs of an application. */
    static ensile_application table_of(Application &application) {
        ensile_application table = {};
        table.abi_version = ENSILE_ABI_VERSION;
        table.version = application.version();
        table.user = &application;
        table.load_one = [](void *user, uint64_t object, ensile_bytes bytes, ensile_error *why) noexcept {
            return call_back(why, [&] { of(user).load_one(object, bytes.data, bytes.size); });
        };
        table.replay_one = [](void *user, uint64_t object, uint32_t operation, const ensile_bytes *parameters,
                              size_t count, ensile_error *why) noexcept {
            return call_back(why, [&] { of(user).replay_one(object, operation, Parameters(parameters, count)); });
        };
        table.load_older = [](void *user, uint32_t version, uint64_t object, ensile_bytes bytes,
                              ensile_error *why) noexcept {
            return call_back(why, [&] { of(user).load_older(uint16_t(version), object, bytes.data, bytes.size); });
        };
        table.replay_older = [](void *user, uint32_t version, uint64_t object, uint32_t operation,
                                const ensile_bytes *parameters, size_t count, ensile_error *why) noexcept {
            const Parameters list(parameters, count);
            return call_back(why, [&] { of(user).replay_older(uint16_t(version), object, operation, list); });
        };
        if (dynamic_cast<Enumerated *>(&application) != nullptr) {
            table.next_object = [](void *user, uint64_t from, uint64_t *object, ensile_error *why) noexcept {
                return call_back(why, [&] { *object = enumerated(user).next_object(from); });
            };
            table.save_one = [](void *user, uint64_t object, ensile_writer *writer, ensile_error *why) noexcept {
                return call_back(why, [&] {
                    Writer out(writer);
                    enumerated(user).save_one(object, out);
                });
            };
        } else {
            table.checkpoint = [](void *user, uint64_t from, ensile_writer *writer, uint64_t *next,
                                  ensile_error *why) noexcept {
                return call_back(why, [&] {
                    Writer out(writer);
                    *next = of(user).checkpoint(from, out);
                });
            };
        }
        return table;
    }
    static Application &of(void *user) noexcept { return *static_cast<Application *>(user); }
    static Enumerated &enumerated(void *user) noexcept { return static_cast<Enumerated &>(of(user)); }

    ensile_objects *objects_ = nullptr;
};

} // namespace ensile

#endif
