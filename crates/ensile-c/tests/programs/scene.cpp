/* The scene of a lost guard with the service in C++: `scene FOLDER` dies in it, `scene FOLDER show` prints a price. */
#include "scene.h"

#define main my_service_main
#include SERVICE
#undef main

int main(int count, char **arguments) {
    MyService service(arguments[1]);
    if (count > 2) {
        std::printf("%.0f", service.item(7)->price);
        return 0;
    }
    service.list(7, {0, 0});
    service.durable(service.update_price(7, 1));
    is_scene = 1;
    die_behind_checkpoint(service.update_price(7, 2));
}
