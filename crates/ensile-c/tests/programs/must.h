/* Checks of a test's program: a failed check prints its line and ends the program. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                    \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#endif
