/* The timers of libuv and libevent behind five calls each: new, free, start, stop, turn. A timer is a number below the count
 * given to new. turn runs the loop once without waiting and writes the numbers of the timers that fired, at most `room`. */

#include <stdint.h>
#include <stdlib.h>

struct fired {
    uint32_t *out;
    size_t room, count;
};

static void note(struct fired *fired, uint32_t which) {
    if (fired->count < fired->room) {
        fired->out[fired->count] = which;
        fired->count += 1;
    }
}

#ifdef MAINSPRING_LIBUV
#include <uv.h>

struct uv_state {
    uv_loop_t loop;
    struct fired fired;
    size_t count;
    uv_timer_t timers[];
};

static void uv_due(uv_timer_t *timer) {
    struct uv_state *state = timer->loop->data;
    note(&state->fired, (uint32_t)(timer - state->timers));
}

void *mainspring_uv_new(size_t count) {
    struct uv_state *state = calloc(1, sizeof *state + count * sizeof(uv_timer_t));
    if (state == NULL || uv_loop_init(&state->loop) != 0) {
        free(state);
        return NULL;
    }
    state->loop.data = state;
    state->count = count;
    for (size_t i = 0; i < count; i++) uv_timer_init(&state->loop, &state->timers[i]);
    return state;
}

void mainspring_uv_free(void *pointer) {
    struct uv_state *state = pointer;
    for (size_t i = 0; i < state->count; i++) uv_close((uv_handle_t *)&state->timers[i], NULL);
    uv_run(&state->loop, UV_RUN_DEFAULT);
    uv_loop_close(&state->loop);
    free(state);
}

/* The loop counts a delay from its own last look at the clock: it has to look, or the timer is early. */
void mainspring_uv_start(void *pointer, uint32_t which, uint64_t ms) {
    struct uv_state *state = pointer;
    uv_update_time(&state->loop);
    uv_timer_start(&state->timers[which], uv_due, ms, 0);
}

int mainspring_uv_stop(void *pointer, uint32_t which) {
    struct uv_state *state = pointer;
    int was_active = uv_is_active((uv_handle_t *)&state->timers[which]);
    uv_timer_stop(&state->timers[which]);
    return was_active;
}

size_t mainspring_uv_turn(void *pointer, uint32_t *out, size_t room) {
    struct uv_state *state = pointer;
    state->fired = (struct fired){out, room, 0};
    uv_run(&state->loop, UV_RUN_NOWAIT);
    return state->fired.count;
}
#endif

#ifdef MAINSPRING_LIBEVENT
#include <event2/event.h>
#include <event2/event_struct.h>

struct ev_state {
    struct event_base *base;
    struct fired fired;
    struct ev_timer {
        struct event event;
        struct ev_state *state;
    } timers[];
};

static void ev_due(evutil_socket_t socket, short what, void *argument) {
    struct ev_timer *timer = argument;
    (void)socket, (void)what;
    note(&timer->state->fired, (uint32_t)(timer - timer->state->timers));
}

void *mainspring_ev_new(size_t count) {
    struct ev_state *state = calloc(1, sizeof *state + count * sizeof(struct ev_timer));
    if (state == NULL) return NULL;
    state->base = event_base_new();
    if (state->base == NULL) {
        free(state);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        state->timers[i].state = state;
        evtimer_assign(&state->timers[i].event, state->base, ev_due, &state->timers[i]);
    }
    return state;
}

void mainspring_ev_free(void *pointer) {
    struct ev_state *state = pointer;
    event_base_free(state->base);
    free(state);
}

void mainspring_ev_start(void *pointer, uint32_t which, uint64_t ms) {
    struct ev_state *state = pointer;
    struct timeval delay = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    evtimer_add(&state->timers[which].event, &delay);
}

int mainspring_ev_stop(void *pointer, uint32_t which) {
    struct ev_state *state = pointer;
    int was_pending = evtimer_pending(&state->timers[which].event, NULL);
    evtimer_del(&state->timers[which].event);
    return was_pending;
}

size_t mainspring_ev_turn(void *pointer, uint32_t *out, size_t room) {
    struct ev_state *state = pointer;
    state->fired = (struct fired){out, room, 0};
    event_base_loop(state->base, EVLOOP_NONBLOCK);
    return state->fired.count;
}
#endif
