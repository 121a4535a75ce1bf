/* The scene of a lost guard with the service in C: `scene FOLDER` dies in it, `scene FOLDER show` prints a price. */
#include "scene.h"

#define main my_service_main
#include SERVICE
#undef main

int main(int count, char **arguments) {
    static struct service service;
    open_service(&service, arguments[1]);
    if (count > 2) {
        printf("%.0f", service.obj[7].price);
        return ensile_objects_free(service.slach, NULL);
    }
    const struct item item = {0, 0};
    list(&service, 7, &item);
    must(ensile_objects_durable(service.slach, update_price(&service, 7, 1), NULL), "durable");
    is_scene = 1;
    die_behind_checkpoint(update_price(&service, 7, 2));
    return 1;
}
