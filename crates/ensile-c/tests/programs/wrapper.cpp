/* The edges of objects.hpp: exceptions of call-backs, iterators, checkpoints of several blocks, handles that move. */
#include "must.hpp"

#include <map>
#include <mutex>

#include <sys/wait.h>
#include <unistd.h>

/* Exception of a call-back. */
enum class Throws { Nothing, Text, Number, InSave };

/* Texts by their numbers, which are far apart. */
class Texts final : public ensile::Enumerated {
public:
    enum { APPEND, REMOVE };
    Throws throws = Throws::Nothing;
    std::mutex guard;
    std::map<uint64_t, std::string> texts;

    void change(uint64_t id, uint32_t operation, std::string_view text, std::string_view more) {
        if (operation == REMOVE) {
            texts.erase(id);
        } else {
            texts[id].append(text).append(more);
        }
    }
    uint64_t next_object(uint64_t from) override {
        std::lock_guard<std::mutex> hold(guard);
        const auto next = texts.lower_bound(from);
        return next == texts.end() ? ENSILE_NO_OBJECT : next->first;
    }
    void save_one(uint64_t id, ensile::Writer &out) override {
        if (throws == Throws::InSave) {
            throw std::runtime_error("cannot be saved");
        }
        std::lock_guard<std::mutex> hold(guard);
        const auto text = texts.find(id);
        if (text != texts.end()) {
            out.ckpt(id, text->second);
        }
    }
    void load_one(uint64_t id, const void *data, size_t size) override {
        if (throws == Throws::Text) {
            throw std::runtime_error("cannot be loaded");
        }
        std::lock_guard<std::mutex> hold(guard);
        texts[id] = std::string(static_cast<const char *>(data), size);
    }
    void replay_one(uint64_t id, uint32_t operation, const ensile::Parameters &parameters) override {
        if (throws == Throws::Number) {
            throw 7;
        }
        MUST(parameters.size() == 2);
        std::lock_guard<std::mutex> hold(guard);
        change(id, operation, parameters.text(0), parameters.text(1));
    }
};

/* Texts whose program ends each text differently since version 1, and has an up-cast from version 0. */
class NewTexts : public ensile::Application {
public:
    std::mutex guard;
    std::map<uint64_t, std::string> texts;

    uint16_t version() const noexcept override { return 1; }
    uint64_t checkpoint(uint64_t from, ensile::Writer &out) override {
        std::lock_guard<std::mutex> hold(guard);
        for (auto text = texts.lower_bound(from); text != texts.end(); ++text) {
            if (!out.ckpt(text->first, text->second)) {
                return text->first + 1;
            }
        }
        return ENSILE_NO_OBJECT;
    }
    void load_one(uint64_t id, const void *data, size_t size) override {
        std::lock_guard<std::mutex> hold(guard);
        texts[id] = std::string(static_cast<const char *>(data), size);
    }
    void replay_one(uint64_t id, uint32_t, const ensile::Parameters &parameters) override {
        std::lock_guard<std::mutex> hold(guard);
        texts[id].append(parameters.text(0)).append("?");
    }
};
class UpCastTexts final : public NewTexts {
public:
    void load_older(uint16_t version, uint64_t id, const void *data, size_t size) override {
        MUST(version == 0);
        load_one(id, data, size);
    }
    void replay_older(uint16_t version, uint64_t id, uint32_t, const ensile::Parameters &parameters) override {
        MUST(version == 0 && parameters.size() == 2);
        std::lock_guard<std::mutex> hold(guard);
        texts[id].append(parameters.text(0)).append(parameters.text(1));
    }
};

static ensile::Settings on_demand() {
    ensile::Settings settings;
    settings.set(ENSILE_POLICY_ON_DEMAND, 0).set(ENSILE_RECOVERY_THREADS, 3);
    return settings;
}

static ensile_receipt append(ensile::Objects &objects, Texts &texts, uint64_t id, const std::string &text) {
    std::lock_guard<std::mutex> hold(texts.guard);
    const ensile_receipt receipt = objects.log(id, Texts::APPEND, text, "!");
    texts.change(id, Texts::APPEND, text, "!");
    return receipt;
}

static ensile_receipt append_measured(ensile::Objects &objects, Texts &texts, uint64_t id, const std::string &text) {
    std::lock_guard<std::mutex> hold(texts.guard);
    const auto make = [&] { texts.change(id, Texts::APPEND, text, "!"); };
    return objects.change(id, Texts::APPEND, make, text, "!");
}

int main(int, char **arguments) {
    const std::string folder = arguments[1];
    std::map<uint64_t, std::string> expected;
    {
        Texts texts;
        ensile::Settings settings = on_demand(), moved = std::move(settings);
        settings = std::move(moved);
        ensile::Objects objects(folder, texts, settings);
        for (uint64_t id = 0; id < 200; id++) {
            append(objects, texts, id * 1000, std::string(5000, char('a' + id % 26)));
        }
        /* A megabyte: four blocks of a checkpoint. */
        MUST(objects.checkpoint().entries == 200);
        const ensile_receipt receipt = append(objects, texts, 5000, "more");
        objects.durable(receipt);
        MUST(objects.is_durable(receipt));
        texts.throws = Throws::InSave;
        FAILS(objects.checkpoint(), ENSILE_CHECKPOINT_FAILED, "cannot be saved");
        FAILS(objects.log(ENSILE_NO_OBJECT, 0), ENSILE_INVALID, "number of no object");
        FAILS(objects.durable({UINT64_MAX}), ENSILE_INVALID, "other objects");
        FAILS(objects.durable({objects.stats().epoch + 1000000}), ENSILE_INVALID, "newest");
        FAILS(ensile::Objects(folder, texts), ENSILE_TRY_AGAIN, "in use");
        texts.throws = Throws::Nothing;
        MUST(objects.checkpoint().number > 0 && objects.stats().checkpoints == 2);
        append(objects, texts, 7, "behind it");
        /* Logged and made in one call, and measured; an exception is the caller's. */
        objects.durable(append_measured(objects, texts, 7, "measured"));
        while (objects.stats().applied_nanos == 0) {
            append_measured(objects, texts, 9, "");
        }
        try {
            objects.change(11, Texts::APPEND, [] { throw 5; }, "", "");
            MUST(!"it throws");
        } catch (int thrown) {
            MUST(thrown == 5);
        }
        FAILS(append(objects, texts, 11, "later"), ENSILE_POISONED, "object 11 is poisoned");
        texts.change(11, Texts::APPEND, "", "");
        FAILS(objects.change(ENSILE_NO_OBJECT, 0, [] { std::abort(); }), ENSILE_INVALID, "number of no object");
        const pid_t child = fork();
        if (child == 0) {
            FAILS(append(objects, texts, 7, "in a child"), ENSILE_FORKED, "forked");
            FAILS(objects.close(), ENSILE_FORKED, "forked");
            _exit(0);
        }
        int status = 1;
        MUST(waitpid(child, &status, 0) == child && status == 0);
        expected = texts.texts;
        objects.close();
        FAILS(append(objects, texts, 7, "too late"), ENSILE_CLOSED, "closed");
        FAILS(objects.checkpoint(), ENSILE_CLOSED, "closed");
        objects.close();
    }
    for (const Throws throws : {Throws::Text, Throws::Number}) {
        Texts texts;
        texts.throws = throws;
        FAILS(ensile::Objects(folder, texts, on_demand()), ENSILE_NOT_UNDERSTOOD,
              throws == Throws::Text ? "cannot be loaded" : "no std::exception");
    }
    Texts texts;
    ensile::Objects objects(folder, texts, on_demand());
    MUST(texts.texts == expected);
    MUST(objects.recovery().checkpoint_entries == 200 && objects.recovery().log_entries >= 3);
    ensile::Settings settings;
    FAILS(settings.set(999, 1), ENSILE_INVALID, "no setting");
    FAILS(settings.set(ENSILE_LOGGERS, 0), ENSILE_INVALID, "0");
    FAILS(settings.add_folder(9, "x"), ENSILE_INVALID, "no kind");
    FAILS(settings.add_folder(ENSILE_LOG_FOLDER, ""), ENSILE_INVALID, "empty");
    FAILS(settings.application_name(""), ENSILE_INVALID, "no name");
    {
        Texts named;
        ensile::Objects first(folder + ".named", named, on_demand().application_name("prices"));
    }
    Texts other;
    FAILS(ensile::Objects(folder + ".named", other, on_demand()), ENSILE_WRONG_FOLDER, "without a name");
    {
        const std::string old = folder + ".old";
        {
            Texts texts;
            ensile::Objects objects(old, texts, on_demand());
            append(objects, texts, 1, "loaded");
            objects.checkpoint();
            append(objects, texts, 1, "replayed");
            append(objects, texts, 2, "replayed");
        }
        NewTexts without;
        FAILS(ensile::Objects(old, without, on_demand()), ENSILE_NOT_UNDERSTOOD,
              "it is of version 0; this program writes version 1, and has no up-cast from that");
        for (int life = 0; life < 2; life++) {
            UpCastTexts texts;
            ensile::Objects objects(old, texts, on_demand());
            MUST(texts.texts[1] == "loaded!replayed!" && texts.texts[2] == (life ? "replayed!new?" : "replayed!"));
            std::lock_guard<std::mutex> hold(texts.guard);
            if (life == 0) {
                objects.log(2, 0, "new");
            }
        }
        Texts texts;
        FAILS(ensile::Objects(old, texts, on_demand()), ENSILE_NOT_UNDERSTOOD, "of version 1");
    }
    const ensile_bytes bytes[] = {{"ab", 2}};
    const ensile::Parameters one(bytes, 1);
    try {
        one.get<double>(0);
        MUST(!"too few bytes for a double");
    } catch (const std::invalid_argument &) {
    }
    try {
        one[1];
        MUST(!"there is no second one");
    } catch (const std::out_of_range &) {
    }
    std::printf("all as it must be");
}
