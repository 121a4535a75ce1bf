/* Checks of a test's program in C++: as must.h, and a check of a thrown ensile::Error. */
#ifndef MUST_HPP
#define MUST_HPP

#include <ensile/objects.hpp>

#include "must.h"

/* Fails unless `call` throws an error with this code and this part of its text. */
template <class Call> void fails(int line, Call call, ensile_code code, const std::string &part) {
    try {
        call();
    } catch (const ensile::Error &error) {
        if (error.code() == code && std::string(error.what()).find(part) != std::string::npos) {
            return;
        }
        std::fprintf(stderr, "line %d: %d, %s\n", line, int(error.code()), error.what());
        std::exit(1);
    }
    std::fprintf(stderr, "line %d: does not throw\n", line);
    std::exit(1);
}
#define FAILS(call, code, part) fails(__LINE__, [&] { call; }, code, part)

#endif
