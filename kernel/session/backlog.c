/* backlog.c - slow subscribers: nobody waits for them, and they can't fill the memory.
 *
 * libzmq has a queue for each subscriber. A subscriber that doesn't read (a stopped
 * process, a network that hangs) must not delay the others, and should get everything
 * when it comes back. But an animation of large pictures would fill the machine's
 * memory, and the system would kill the frontend, which owns the session. So the
 * waiting bytes are counted. Beyond a limit, the client that is furthest behind misses
 * messages. Once it has taken those before, it gets a message that says so.
 *
 * libzmq frees a part when the last subscriber's copy of it is on its way. So the parts
 * that libzmq hasn't freed yet, which its own thread reports, are those that the
 * slowest subscriber has yet to take. libzmq also bounds each queue by a mark in
 * messages (SNDHWM), and reports a full queue (XPUB_NODROP). Below our limit, the mark
 * is doubled whenever a queue is full. At the limit, the message goes to those that
 * have room.
 *
 * A subscriber's side reports what it has read whenever the count is a multiple of half
 * the mark. So a queue may seem longer than it is by that much. Hence three rules:
 * - The mark isn't large from the start. It stays near what the slowest subscriber has
 *   waiting, so all others are below it.
 * - The mark is halved if less than a quarter of it waits, each time after so many
 *   messages that every reader has reported.
 * - After a subscriber has missed a message, libzmq gives it nothing before its next
 *   report, which must become due within what it has waiting. So the mark is doubled
 *   once, for the others, and then stays until nothing waits.
 *
 * MARK_MAX ends the growth: no more messages than that are kept, whatever their size.
 *
 * Rejected:
 * - No limit: a stopped client then ended the session.
 * - A fixed limit in messages: those of 10 MB and those of 100 bytes need different
 *   ones.
 * - A queue of our own before libzmq's: quick subscribers would wait for slow ones.
 * - To end the slow one's connection: libzmq doesn't name the subscriber.
 *
 * One thread, except for the two counts, which libzmq's thread lowers.
 */
#include "session/channels.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MARK_MIN 1024      /* messages */
#define MARK_MAX (1 << 18) /* messages */

struct hfi_backlog {
    void *socket;
    uint64_t limit;           /* bytes */
    _Atomic uint64_t waiting; /* bytes */
    _Atomic uint64_t count;   /* messages */
    int mark;                 /* SNDHWM */
    int sent; /* messages since the mark was set, counted up to the mark */
    int missed;
};

typedef struct counted {
    hfi_backlog *backlog;
    uint64_t weight;
    char bytes[];
} counted;

static void
set_mark(hfi_backlog *backlog, int mark) {
    backlog->mark = mark;
    backlog->sent = 0;
    (void)zmq_setsockopt(backlog->socket, ZMQ_SNDHWM, &mark, sizeof mark);
}

static void
set_lossless(hfi_backlog *backlog, int lossless) {
    (void)zmq_setsockopt(backlog->socket, ZMQ_XPUB_NODROP, &lossless, sizeof lossless);
}

hf_status
hfi_backlog_create(void *socket, uint64_t limit_bytes, hfi_backlog **ret_backlog,
                   hf_error *reterr) {
    hfi_backlog *backlog = calloc(1, sizeof *backlog);
    if (backlog == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the channels");
    backlog->socket = socket;
    backlog->limit = limit_bytes > 0 ? limit_bytes : HFI_BACKLOG_DEFAULT_BYTES;
    set_mark(backlog, MARK_MIN);
    set_lossless(backlog, 1);
    *ret_backlog = backlog;
    return HF_OK;
}

void
hfi_backlog_close(hfi_backlog *backlog) {
    free(backlog);
}

static void
release_part(void *data, void *hint) {
    counted *part = hint;
    (void)data;
    atomic_fetch_sub(&part->backlog->waiting, part->weight);
    atomic_fetch_sub(&part->backlog->count, 1);
    free(part);
}

hf_status
hfi_backlog_count(hfi_backlog *backlog, hfi_part part, uint64_t weight_bytes,
                  zmq_msg_t *ret_message, hf_error *reterr) {
    counted *copy = malloc(sizeof *copy + part.size);
    if (copy == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for output");
    copy->backlog = backlog;
    copy->weight = weight_bytes;
    memcpy(copy->bytes, part.data, part.size);
    if (zmq_msg_init_data(ret_message, copy->bytes, part.size, release_part, copy) !=
        0) {
        free(copy);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for output");
    }
    atomic_fetch_add(&backlog->waiting, weight_bytes);
    atomic_fetch_add(&backlog->count, 1);
    return HF_OK;
}

/* HF_AGAIN if a subscriber's queue is full. */
static hf_status
try_topic(hfi_backlog *backlog, hfi_part topic, hf_error *reterr) {
    while (zmq_send(backlog->socket, topic.data, topic.size,
                    ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN)
            return HF_AGAIN;
        if (errno != EINTR)
            return hf_error_set(reterr, HF_E_SYSTEM, "sending: %s",
                                zmq_strerror(errno));
    }
    return HF_OK;
}

static void
lower_mark(hfi_backlog *backlog) {
    if (backlog->sent < backlog->mark)
        backlog->sent++;
    else if (!backlog->missed && backlog->mark > MARK_MIN &&
             atomic_load(&backlog->count) < (uint64_t)backlog->mark / 4)
        set_mark(backlog, backlog->mark / 2);
}

/* Whether more may wait for the subscriber whose queue is full. */
static int
may_grow(const hfi_backlog *backlog) {
    return !backlog->missed && backlog->mark < MARK_MAX &&
           atomic_load(&backlog->waiting) < backlog->limit;
}

hf_status
hfi_backlog_send_topic(hfi_backlog *backlog, hfi_part topic, hf_error *reterr) {
    lower_mark(backlog);
    hf_status status = try_topic(backlog, topic, reterr);
    while (status == HF_AGAIN && may_grow(backlog)) {
        set_mark(backlog, backlog->mark * 2);
        status = try_topic(backlog, topic, reterr);
    }
    if (status != HF_AGAIN)
        return status;
    set_lossless(backlog, 0);
    status = try_topic(backlog, topic, reterr);
    set_lossless(backlog, 1);
    if (!backlog->missed)
        set_mark(backlog, backlog->mark * 2);
    backlog->missed = 1;
    return status;
}

int
hfi_backlog_take_missed(hfi_backlog *backlog) {
    if (!backlog->missed || atomic_load(&backlog->count) > 0)
        return 0;
    backlog->missed = 0;
    return 1;
}
