/* channels.c - binding, receiving and sending on the five sockets.
 *
 *     shell, control, stdin   ROUTER: clients are known by their identity
 *     iopub                   XPUB: so that new subscribers are seen and welcomed
 *     hb                      REP
 *
 * With one exception nothing here blocks. Everything is received with ZMQ_DONTWAIT. A
 * ROUTER without a high-water mark queues what is sent. backlog.c bounds what
 * subscribers of iopub have yet to take. With ROUTER_HANDOVER a client that reconnects
 * takes its identity again.
 *
 * The exception is a question on stdin. A ROUTER drops messages for peers that it
 * doesn't know. On shell and control that is right: a client that asked there is known,
 * or has gone. A question on stdin goes to a client that asked on shell, whose
 * connection to stdin may come a moment later. So sending waits for that connection,
 * CONNECT_MS at most. Otherwise input() would wait for ever. If the client has gone,
 * each question costs the loop that time.
 *
 * Who can send and listen:
 * - tcp: any program that reaches the ports. So messages have a signature, but anybody
 *   may listen to iopub.
 * - tcp with the CurveZMQ keys of the connection file: only a program that has read the
 *   file, since a client must know the server's public key. Everything is encrypted.
 * - ipc: only this user, because the sockets have mode 0600.
 *
 * A program that isn't let in can't make us keep anything. Over tcp without Curve, a
 * multipart that never ends is bounded by the size of a part only, because libzmq shows
 * us whole multiparts. One thread; the sockets never leave it.
 */
#include "session/channels.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#define LINGER_MS     1000
#define CONNECT_MS    100
#define QUIET_NS      10000000LL
#define ENDPOINT_SIZE 1024
#define IPC_PORT_MAX  65535
#define PART_SIZE_MAX INT32_MAX /* the largest that the control channel carries */
#define PART_OVERHEAD 1024      /* bytes that a message costs besides its content */

struct hfi_channels {
    void *context;
    void *socket[HFI_CHANNEL_COUNT];
    int fd[HFI_CHANNEL_COUNT];
    int used[HFI_CHANNEL_COUNT];       /* since we asked whether something has come */
    long long quiet_ns;                /* until then iopub isn't asked for that */
    hfi_backlog *backlog;              /* of iopub */
    char *ipc_path[HFI_CHANNEL_COUNT]; /* files to remove; NULL for tcp */
};

static const int socket_types[HFI_CHANNEL_COUNT] = {ZMQ_ROUTER, ZMQ_XPUB, ZMQ_ROUTER,
                                                    ZMQ_ROUTER, ZMQ_REP};

static void
set_option(void *socket, int option, int value) {
    (void)zmq_setsockopt(socket, option, &value, sizeof value);
}

static hf_status
set_keys(void *socket, const hfi_connection *connection, hf_error *reterr) {
    const char *public = connection->curve_public, *secret = connection->curve_secret;
    if (public == NULL)
        return HF_OK;
    if (!zmq_has("curve"))
        return hf_error_set(reterr, HF_E_INVALID,
                            "the connection file asks for encryption (CurveZMQ), which "
                            "this libzmq was built without");
    set_option(socket, ZMQ_CURVE_SERVER, 1);
    if (zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, strlen(public) + 1) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, strlen(secret) + 1) != 0)
        return hf_error_set(reterr, HF_E_INVALID,
                            "the connection file's CurveZMQ keys are malformed");
    return HF_OK;
}

static hf_status
open_socket(hfi_channels *channels, const hfi_connection *connection, int channel,
            hf_error *reterr) {
    const int64_t part_size_max = PART_SIZE_MAX;
    void *socket = zmq_socket(channels->context, socket_types[channel]);
    if (socket == NULL)
        return hf_error_set_errno(reterr, errno, "zmq_socket");
    channels->socket[channel] = socket;
    size_t size = sizeof channels->fd[channel];
    if (zmq_getsockopt(socket, ZMQ_FD, &channels->fd[channel], &size) != 0)
        return hf_error_set_errno(reterr, errno, "zmq_getsockopt");
    channels->used[channel] = 1;
    (void)zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &part_size_max, sizeof part_size_max);
    set_option(socket, ZMQ_LINGER, LINGER_MS);
    set_option(socket, ZMQ_SNDHWM, 0);
    set_option(socket, ZMQ_RCVHWM, 0);
    set_option(socket, ZMQ_IPV6, 1);
    if (socket_types[channel] == ZMQ_ROUTER)
        set_option(socket, ZMQ_ROUTER_HANDOVER, 1);
    if (channel == HFI_STDIN)
        set_option(socket, ZMQ_ROUTER_MANDATORY, 1);
    if (socket_types[channel] == ZMQ_XPUB)
        set_option(socket, ZMQ_XPUB_VERBOSE, 1);
    return set_keys(socket, connection, reterr);
}

/* Find the port that the system chose, in "tcp://address:port". */
static hf_status
read_port(void *socket, int *ret_port, hf_error *reterr) {
    char endpoint[ENDPOINT_SIZE];
    size_t size = sizeof endpoint;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return hf_error_set_errno(reterr, errno, "ZMQ_LAST_ENDPOINT");
    const char *colon = strrchr(endpoint, ':');
    *ret_port = colon != NULL ? atoi(colon + 1) : 0;
    return HF_OK;
}

/* ---- sockets in the file system -------------------------------------------------- */

static int
fill_address(const char *path, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

/* Whether a process accepts connections there. A process that died leaves only the
 * file. */
static int
is_listened_to(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int found =
        fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

/* Make a socket that listens at a new file of mode 0600; -1 and errno on failure. With
 * `again`, a file at which nobody listens is replaced. libzmq would replace any file:
 * if two kernels start at once, the second would take the first one's place. */
static int
listen_at(const char *path, int again) {
    struct sockaddr_un address;
    if (fill_address(path, &address) != 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    mode_t mask = umask(0177);
    int failed = bind(fd, (const struct sockaddr *)&address, sizeof address);
    if (failed && errno == EADDRINUSE && again && !is_listened_to(&address)) {
        unlink(path);
        failed = bind(fd, (const struct sockaddr *)&address, sizeof address);
    }
    umask(mask);
    if (failed || listen(fd, SOMAXCONN) != 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

/* Bind with ipc, where a port is the end of a file's name. If the client chose none,
 * take the first that is free. */
static hf_status
open_ipc(hfi_channels *channels, hfi_connection *connection, int channel,
         hf_error *reterr) {
    char endpoint[ENDPOINT_SIZE];
    const char *path = endpoint + strlen("ipc://");
    int chosen = connection->port[channel] == 0, fd = -1;
    for (int port = 1; fd < 0 && port <= (chosen ? IPC_PORT_MAX : 1); port++) {
        if (chosen)
            connection->port[channel] = port;
        hf_status status = hfi_connection_endpoint(connection, channel, endpoint,
                                                   sizeof endpoint, reterr);
        if (status != HF_OK)
            return status;
        fd = listen_at(path, !chosen);
        if (fd < 0 && errno != EADDRINUSE)
            break;
    }
    if (fd < 0)
        return hf_error_set_errno(reterr, errno, "cannot bind %s", endpoint);
    channels->ipc_path[channel] = strdup(path);
    if (channels->ipc_path[channel] != NULL &&
        zmq_setsockopt(channels->socket[channel], ZMQ_USE_FD, &fd, sizeof fd) == 0)
        return HF_OK; /* libzmq closes it */
    if (channels->ipc_path[channel] == NULL)
        (void)unlink(path);
    close(fd);
    return hf_error_set(reterr, HF_E_NOMEM, "no memory to listen at %s", endpoint);
}

static hf_status
bind_socket(hfi_channels *channels, hfi_connection *connection, int channel,
            hf_error *reterr) {
    char endpoint[ENDPOINT_SIZE];
    int chosen = connection->port[channel] == 0;
    hf_status status =
        connection->ipc ? open_ipc(channels, connection, channel, reterr) : HF_OK;
    if (status == HF_OK)
        status = hfi_connection_endpoint(connection, channel, endpoint, sizeof endpoint,
                                         reterr);
    if (status != HF_OK)
        return status;
    if (zmq_bind(channels->socket[channel], endpoint) != 0)
        return hf_error_set(reterr, HF_E_SYSTEM, "cannot bind %s: %s", endpoint,
                            zmq_strerror(errno));
    if (!connection->ipc && chosen)
        status =
            read_port(channels->socket[channel], &connection->port[channel], reterr);
    return status;
}

hf_status
hfi_channels_create(hfi_connection *connection, uint64_t backlog_bytes,
                    hfi_channels **ret_channels, hf_error *reterr) {
    hf_status status = HF_OK;
    hfi_channels *channels = calloc(1, sizeof *channels);
    if (channels == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the channels");
    channels->context = zmq_ctx_new();
    if (channels->context == NULL)
        status = hf_error_set_errno(reterr, errno, "zmq_ctx_new");
    for (int i = 0; status == HF_OK && i < HFI_CHANNEL_COUNT; i++) {
        status = open_socket(channels, connection, i, reterr);
        if (status == HF_OK && i == HFI_IOPUB)
            status = hfi_backlog_create(channels->socket[i], backlog_bytes,
                                        &channels->backlog, reterr);
        if (status == HF_OK)
            status = bind_socket(channels, connection, i, reterr);
    }
    if (status != HF_OK) {
        hfi_channels_close(channels);
        return status;
    }
    *ret_channels = channels;
    return HF_OK;
}

void
hfi_channels_close(hfi_channels *channels) {
    if (channels == NULL)
        return;
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++)
        if (channels->socket[i] != NULL)
            zmq_close(channels->socket[i]);
    if (channels->context != NULL)
        while (zmq_ctx_term(channels->context) != 0 && errno == EINTR)
            continue;
    hfi_backlog_close(channels->backlog);
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++) {
        if (channels->ipc_path[i] != NULL)
            unlink(channels->ipc_path[i]);
        free(channels->ipc_path[i]);
    }
    free(channels);
}

int
hfi_channels_fd(const hfi_channels *channels, int channel) {
    return channels->fd[channel];
}

long long
hfi_channels_deadline_ns(const hfi_channels *channels) {
    return channels->used[HFI_IOPUB] ? channels->quiet_ns : -1;
}

int
hfi_channels_has_come(hfi_channels *channels, int channel, int woken,
                      long long now_ns) {
    int events = 0;
    size_t size = sizeof events;
    if (!woken && (!channels->used[channel] ||
                   (channel == HFI_IOPUB && now_ns < channels->quiet_ns)))
        return 0;
    if (channel == HFI_IOPUB)
        channels->quiet_ns = now_ns + QUIET_NS;
    channels->used[channel] = 0;
    if (zmq_getsockopt(channels->socket[channel], ZMQ_EVENTS, &events, &size) != 0)
        channels->used[channel] = 1; /* a signal; it is asked again */
    return (events & ZMQ_POLLIN) != 0;
}

/* ---- receiving ---------------------------------------------------------------- */

/* The parts of one multipart. Parts past the limit are read, counted and dropped. */
typedef struct multipart {
    zmq_msg_t *parts;
    size_t count; /* received */
    size_t kept;
} multipart;

static void
multipart_fini(multipart *whole) {
    for (size_t i = 0; i < whole->kept; i++)
        zmq_msg_close(&whole->parts[i]);
    free(whole->parts);
}

static int
keep_part(multipart *whole, zmq_msg_t *part) {
    if (whole->kept >= HFI_MESSAGE_PARTS_MAX)
        return 0;
    if (whole->kept % 16 == 0) {
        zmq_msg_t *grown =
            realloc(whole->parts, (whole->kept + 16) * sizeof *whole->parts);
        if (grown == NULL)
            return 0;
        whole->parts = grown;
    }
    zmq_msg_init(&whole->parts[whole->kept]);
    zmq_msg_move(&whole->parts[whole->kept++], part);
    return 1;
}

/* HF_OK with at least one part, or HF_AGAIN. */
static hf_status
receive_parts(void *socket, multipart *whole, hf_error *reterr) {
    int more = 1;
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            int err = errno;
            zmq_msg_close(&part);
            if (err == EINTR)
                continue;
            if (err == EAGAIN && whole->count == 0)
                return HF_AGAIN;
            return hf_error_set(reterr, HF_E_SYSTEM, "receiving: %s",
                                zmq_strerror(err));
        }
        more = zmq_msg_more(&part);
        whole->count++;
        keep_part(whole, &part);
        zmq_msg_close(&part);
    }
    return HF_OK;
}

hf_status
hfi_channels_receive(hfi_channels *channels, int channel, hfi_signer *signer,
                     hfi_message *ret_message, hf_error *reterr) {
    multipart whole = {0};
    channels->used[channel] = 1;
    hf_status status = receive_parts(channels->socket[channel], &whole, reterr);
    if (status != HF_OK) {
        if (status == HF_AGAIN) /* libzmq has looked, and found nothing */
            channels->used[channel] = 0;
        multipart_fini(&whole);
        return status;
    }
    hfi_part *parts = calloc(whole.kept, sizeof *parts);
    if (parts == NULL)
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory for a message");
    else if (whole.kept < whole.count)
        status =
            hf_error_set(reterr, HF_E_PROTOCOL, "%zu parts are too many", whole.count);
    else {
        for (size_t i = 0; i < whole.kept; i++)
            parts[i] = hfi_part_of(zmq_msg_data(&whole.parts[i]),
                                   zmq_msg_size(&whole.parts[i]));
        status = hfi_message_parse(parts, whole.kept, signer, ret_message, reterr);
    }
    free(parts);
    multipart_fini(&whole);
    if (status != HF_OK)
        hf_error_prefix(reterr, "%s", hfi_channel_name(channel));
    return status;
}

/* ---- sending ------------------------------------------------------------------ */

static hf_status
send_part(void *socket, hfi_part part, int more, hf_error *reterr) {
    int waits = 0; /* milliseconds */
    while (zmq_send(socket, part.data, part.size, more ? ZMQ_SNDMORE : 0) < 0)
        if (errno == EHOSTUNREACH && waits++ < CONNECT_MS)
            (void)poll(NULL, 0, 1);
        else if (errno != EINTR)
            return hf_error_set(reterr, HF_E_SYSTEM, "sending: %s",
                                zmq_strerror(errno));
    return HF_OK;
}

static hfi_part
or_empty_object(hfi_part part) {
    return part.size > 0 ? part : hfi_part_text("{}");
}

/* From the delimiter to the metadata. */
static hf_status
send_head(void *socket, const char *signature, const hfi_part json[4],
          hf_error *reterr) {
    hf_status status = send_part(socket, hfi_part_text("<IDS|MSG>"), 1, reterr);
    if (status == HF_OK)
        status = send_part(socket, hfi_part_text(signature), 1, reterr);
    for (size_t i = 0; status == HF_OK && i < 3; i++)
        status = send_part(socket, json[i], 1, reterr);
    return status;
}

static hf_status
send_buffers(void *socket, const hfi_outgoing *message, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < message->buffer_count; i++)
        status = send_part(socket, message->buffers[i], i + 1 < message->buffer_count,
                           reterr);
    return status;
}

static hf_status
send_routed(void *socket, const char *signature, const hfi_part json[4],
            const hfi_outgoing *message, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < message->ident_count; i++)
        status = send_part(socket, message->idents[i], 1, reterr);
    if (status == HF_OK)
        status = send_head(socket, signature, json, reterr);
    if (status == HF_OK)
        status = send_part(socket, json[3], message->buffer_count > 0, reterr);
    return status == HF_OK ? send_buffers(socket, message, reterr) : status;
}

static hf_status
send_published(const hfi_channels *channels, const char *signature,
               const hfi_part json[4], const hfi_outgoing *message, hf_error *reterr) {
    void *socket = channels->socket[HFI_IOPUB];
    zmq_msg_t content;
    uint64_t weight = json[3].size + PART_OVERHEAD;
    for (size_t i = 0; i < message->buffer_count; i++)
        weight += message->buffers[i].size;
    hf_status status =
        hfi_backlog_count(channels->backlog, json[3], weight, &content, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_backlog_send_topic(channels->backlog, message->idents[0], reterr);
    if (status == HF_OK)
        status = send_head(socket, signature, json, reterr);
    while (status == HF_OK &&
           zmq_msg_send(&content, socket, message->buffer_count > 0 ? ZMQ_SNDMORE : 0) <
               0)
        if (errno != EINTR)
            status =
                hf_error_set(reterr, HF_E_SYSTEM, "sending: %s", zmq_strerror(errno));
    zmq_msg_close(&content); /* all that was sent was moved out of it */
    return status == HF_OK ? send_buffers(socket, message, reterr) : status;
}

hf_status
hfi_channels_send(hfi_channels *channels, int channel, hfi_signer *signer,
                  hfi_part header, const hfi_outgoing *message, hf_error *reterr) {
    char signature[HFI_SIGNATURE_TEXT + 1];
    const hfi_part json[4] = {header, or_empty_object(message->parent),
                              or_empty_object(message->metadata),
                              or_empty_object(message->content)};
    channels->used[channel] = 1;
    hfi_signer_sign(signer, json, signature);
    if (channel == HFI_IOPUB)
        return send_published(channels, signature, json, message, reterr);
    return send_routed(channels->socket[channel], signature, json, message, reterr);
}

int
hfi_channels_take_missed(hfi_channels *channels) {
    return hfi_backlog_take_missed(channels->backlog);
}

void
hfi_channels_echo(hfi_channels *channels) {
    void *socket = channels->socket[HFI_HEARTBEAT];
    channels->used[HFI_HEARTBEAT] = 1;
    for (;;) {
        zmq_msg_t part;
        int more = 1;
        while (more) {
            zmq_msg_init(&part);
            if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
                zmq_msg_close(&part);
                return;
            }
            more = zmq_msg_more(&part);
            if (zmq_msg_send(&part, socket, more ? ZMQ_SNDMORE : 0) < 0)
                zmq_msg_close(&part);
        }
    }
}

hf_status
hfi_channels_subscription(hfi_channels *channels, hfi_textbuf *ret_topic) {
    channels->used[HFI_IOPUB] = 1;
    for (;;) {
        multipart whole = {0};
        hf_status status = receive_parts(channels->socket[HFI_IOPUB], &whole, NULL);
        if (status == HF_AGAIN)
            channels->used[HFI_IOPUB] = 0;
        const char *data = NULL;
        size_t size = 0;
        if (status == HF_OK && whole.kept > 0) {
            data = zmq_msg_data(&whole.parts[0]);
            size = zmq_msg_size(&whole.parts[0]);
        }
        int subscribes = size > 0 && data[0] == 1;
        if (subscribes) {
            hfi_textbuf_clear(ret_topic);
            hfi_textbuf_append(ret_topic, data + 1, size - 1);
        }
        multipart_fini(&whole);
        if (status != HF_OK || subscribes)
            return status == HF_OK ? HF_OK : HF_AGAIN;
    }
}
