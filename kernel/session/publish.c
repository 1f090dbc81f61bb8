/* publish.c - everything that is sent to clients: iopub, replies, and their JSON.
 *
 * Content that a worker made is sent byte for byte; the frontend adds header and
 * signature. The frontend's own messages are written as text or by jansson.
 *
 * Topics are "kernel.<name>.<type>", and "stream.<name>" for streams, so that a
 * subscriber can filter. A message that can't be sent for want of memory is dropped,
 * with a line in the log. One thread.
 */
#include "session/publish.h"

#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request whose "busy" was published, and whose "idle" wasn't yet. */
typedef struct open_request {
    struct open_request *next;
    size_t size;
    char header[];
} open_request;

struct hfi_clients {
    hfi_signer *signer;
    hfi_channels *channels;
    /* the "session" of our headers: the key's mark, and digits of this run */
    char name[33];
    unsigned long long message_count;
    hfi_textbuf last_parent; /* header of the last execute_request */
    open_request *open;      /* oldest first */
};

static void
fini_publish(hf_kernel *kernel) {
    open_request *next;
    for (open_request *at = kernel->publish->open; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    hfi_channels_close(kernel->publish->channels);
    hfi_signer_close(kernel->publish->signer);
    hfi_textbuf_fini(&kernel->publish->last_parent);
}

const hfi_owner hfi_publish_owner = {offsetof(hf_kernel, publish),
                                     sizeof(struct hfi_clients), NULL, fini_publish};

static void
send_message(hf_kernel *kernel, int channel, const hfi_outgoing *message) {
    hfi_textbuf header = {0};
    hf_error error = HF_ERROR_INIT;
    hfi_header_write(&header, message->type, kernel->publish->name,
                     ++kernel->publish->message_count);
    if (header.failed)
        hfi_log("no memory for a %s", message->type);
    else if (hfi_channels_send(kernel->publish->channels, channel,
                               kernel->publish->signer, hfi_textbuf_part(&header),
                               message, &error) != HF_OK)
        hfi_log("%s: %s", message->type, error.message);
    hfi_textbuf_fini(&header);
}

void
hfi_publish_outgoing(hf_kernel *kernel, const hfi_outgoing *message) {
    char topic[128];
    hfi_outgoing addressed = *message;
    snprintf(topic, sizeof topic, "kernel.%s.%.60s", kernel->publish->name,
             message->type);
    hfi_part ident = hfi_part_text(topic);
    if (message->ident_count == 0) {
        addressed.idents = &ident;
        addressed.ident_count = 1;
    }
    send_message(kernel, HFI_IOPUB, &addressed);
}

void
hfi_publish(hf_kernel *kernel, const char *type, hfi_part parent, hfi_part content) {
    hfi_outgoing message = {.type = type, .parent = parent, .content = content};
    hfi_publish_outgoing(kernel, &message);
}

static void
publish_status(hf_kernel *kernel, hfi_part parent, const char *state) {
    char content[64];
    snprintf(content, sizeof content, "{\"execution_state\":\"%s\"}", state);
    hfi_publish(kernel, "status", parent, hfi_part_text(content));
}

void
hfi_publish_starting(hf_kernel *kernel) {
    publish_status(kernel, hfi_part_text("{}"), "starting");
}

void
hfi_publish_busy(hf_kernel *kernel, const hfi_request *request) {
    hfi_part header = request->message.header;
    open_request **last = &kernel->publish->open;
    open_request *made = malloc(sizeof *made + header.size);
    if (made != NULL) {
        made->next = NULL;
        made->size = header.size;
        memcpy(made->header, header.data, header.size);
        while (*last != NULL)
            last = &(*last)->next;
        *last = made;
    }
    publish_status(kernel, header, "busy");
}

void
hfi_publish_idle(hf_kernel *kernel, const hfi_request *request) {
    hfi_part header = request->message.header;
    open_request **at = &kernel->publish->open, *ended;
    while (*at != NULL && ((*at)->size != header.size ||
                           memcmp((*at)->header, header.data, header.size) != 0))
        at = &(*at)->next;
    ended = *at;
    if (ended != NULL)
        *at = ended->next;
    free(ended);
    publish_status(kernel, header, "idle");
    const open_request *oldest = kernel->publish->open;
    if (oldest != NULL && !kernel->stopping)
        publish_status(kernel, hfi_part_of(oldest->header, oldest->size), "busy");
}

void
hfi_publish_stream(hf_kernel *kernel, int name, hfi_part parent, hfi_part text) {
    hfi_textbuf content = {0};
    hfi_part topic =
        hfi_part_text(name == HFI_STDOUT ? "stream.stdout" : "stream.stderr");
    hfi_textbuf_format(&content, "{\"name\":\"%s\",\"text\":",
                       name == HFI_STDOUT ? "stdout" : "stderr");
    hfi_textbuf_append_json(&content, text.data, text.size);
    hfi_textbuf_append(&content, "}", 1);
    hfi_outgoing message = {.type = "stream",
                            .parent = parent,
                            .content = hfi_textbuf_part(&content),
                            .idents = &topic,
                            .ident_count = 1};
    if (content.failed)
        hfi_log("no memory for output");
    else
        hfi_publish_outgoing(kernel, &message);
    hfi_textbuf_fini(&content);
}

void
hfi_publish_input(hf_kernel *kernel, hfi_part parent, json_t *code, long long number) {
    hfi_textbuf content = {0};
    hfi_textbuf_format(&content, "{\"code\":");
    hfi_textbuf_append_json(&content, json_string_value(code),
                            json_string_length(code));
    hfi_textbuf_format(&content, ",\"execution_count\":%lld}", number);
    hfi_publish(kernel, "execute_input", parent, hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

void
hfi_publish_welcomes(hf_kernel *kernel) {
    hfi_textbuf topic = {0}, content = {0};
    while (hfi_channels_subscription(kernel->publish->channels, &topic) == HF_OK) {
        hfi_part ident = hfi_textbuf_part(&topic);
        if (!hfi_utf8_is_valid(topic.data, topic.size))
            continue; /* JSON can't name it */
        hfi_textbuf_clear(&content);
        hfi_textbuf_format(&content, "{\"subscription\":");
        hfi_textbuf_append_json(&content, topic.data, topic.size);
        hfi_textbuf_append(&content, "}", 1);
        hfi_outgoing message = {.type = "iopub_welcome",
                                .content = hfi_textbuf_part(&content),
                                .idents = &ident,
                                .ident_count = 1};
        hfi_publish_outgoing(kernel, &message);
    }
    hfi_textbuf_fini(&topic);
    hfi_textbuf_fini(&content);
}

void
hfi_publish_missed(hf_kernel *kernel) {
    static const char text[] =
        "holdfast: a client of this notebook didn't read its output for so long that "
        "too much was waiting for it. It has missed some.\n";
    if (hfi_channels_take_missed(kernel->publish->channels))
        hfi_publish_stream(kernel, HFI_STDERR,
                           hfi_textbuf_part(&kernel->publish->last_parent),
                           hfi_part_text(text));
}

/* "execute_request" is answered by "execute_reply". */
static void
reply_type(const char *request, char *ret_type, size_t size) {
    size_t length = strlen(request);
    const char ending[] = "_request";
    if (length > strlen(ending) &&
        strcmp(request + length - strlen(ending), ending) == 0)
        length -= strlen(ending);
    snprintf(ret_type, size, "%.*s_reply", (int)(length < 100 ? length : 100), request);
}

void
hfi_reply(hf_kernel *kernel, const hfi_request *request, hfi_part content,
          hfi_part metadata, const hfi_part *buffers, size_t buffer_count) {
    char type[128];
    reply_type(request->message.type, type, sizeof type);
    hfi_outgoing message = {.type = type,
                            .parent = request->message.header,
                            .metadata = metadata,
                            .content = content,
                            .idents = request->message.idents,
                            .ident_count = request->message.ident_count,
                            .buffers = buffers,
                            .buffer_count = buffer_count};
    send_message(kernel, request->channel, &message);
}

void
hfi_send(hf_kernel *kernel, int channel, const hfi_request *request, const char *type,
         hfi_part content) {
    hfi_outgoing message = {.type = type,
                            .parent = request->message.header,
                            .content = content,
                            .idents = request->message.idents,
                            .ident_count = request->message.ident_count};
    send_message(kernel, channel, &message);
}

void
hfi_reply_json(hf_kernel *kernel, const hfi_request *request, json_t *content) {
    char *text = content != NULL ? json_dumps(content, JSON_COMPACT) : NULL;
    if (text == NULL)
        hfi_log("no memory for the reply to a %s", request->message.type);
    else
        hfi_reply(kernel, request, hfi_part_text(text), hfi_part_text("{}"), NULL, 0);
    free(text);
}

void
hfi_write_error(hfi_textbuf *writer, const char *name, const char *value,
                long long execution_count) {
    char line[1024];
    snprintf(line, sizeof line, "%s: %s", name, value);
    hfi_textbuf_format(writer, "{\"status\":\"error\",\"ename\":");
    hfi_textbuf_append_json(writer, name, strlen(name));
    hfi_textbuf_format(writer, ",\"evalue\":");
    hfi_textbuf_append_json(writer, value, strlen(value));
    hfi_textbuf_format(writer, ",\"traceback\":[");
    hfi_textbuf_append_json(writer, line, strlen(line));
    hfi_textbuf_format(writer,
                       "],\"execution_count\":%lld,\"user_expressions\":{},"
                       "\"payload\":[]}",
                       execution_count);
}

void
hfi_reply_error(hf_kernel *kernel, const hfi_request *request, int silent,
                const char *name, const char *value) {
    hfi_reply_error_with(kernel, request, silent, name, value,
                         hfi_part_text("{\"status\":\"error\"}"));
}

void
hfi_reply_error_with(hf_kernel *kernel, const hfi_request *request, int silent,
                     const char *name, const char *value, hfi_part metadata) {
    const char *type = request->message.type;
    int has_reply =
        strncmp(type, "comm_", 5) != 0 || strcmp(type, "comm_info_request") == 0;
    hfi_textbuf content = {0};
    hfi_write_error(&content, name, value, kernel->count);
    if (strcmp(type, "execute_request") == 0 && !silent)
        hfi_publish(kernel, "error", request->message.header,
                    hfi_textbuf_part(&content));
    if (has_reply)
        hfi_reply(kernel, request, hfi_textbuf_part(&content), metadata, NULL, 0);
    hfi_textbuf_fini(&content);
}

const char *
hfi_publish_name(const hf_kernel *kernel) {
    return kernel->publish->name;
}

hfi_part
hfi_publish_last_parent(const hf_kernel *kernel) {
    return hfi_textbuf_part(&kernel->publish->last_parent);
}

void
hfi_publish_keep_parent(hf_kernel *kernel, hfi_part header) {
    hfi_textbuf *last = &kernel->publish->last_parent;
    hfi_textbuf_clear(last);
    hfi_textbuf_append(last, header.data, header.size);
}

/* Make 32 digits of 16 random bytes. */
static hf_status
make_name(char ret_name[33], hf_error *reterr) {
    unsigned char bytes[16];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    int err = errno;
    if (fd >= 0)
        close(fd);
    if (size != (ssize_t)sizeof bytes)
        return hf_error_set_errno(reterr, err, "/dev/urandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_name + 2 * i, 3, "%02x", bytes[i]);
    return HF_OK;
}

hf_status
hfi_publish_open(hf_kernel *kernel, hfi_connection *connection, uint64_t backlog_bytes,
                 hf_error *reterr) {
    struct hfi_clients *own = kernel->publish;
    hf_status status = make_name(own->name, reterr);
    if (status == HF_OK)
        status =
            hfi_signer_create(hfi_part_text(connection->key), &own->signer, reterr);
    if (status != HF_OK)
        return status;
    /* the kernel's own messages are known by their session */
    hfi_signer_mark(own->signer, own->name);
    return hfi_channels_create(connection, backlog_bytes, &own->channels, reterr);
}

hf_status
hfi_publish_receive(hf_kernel *kernel, int channel, hfi_message *ret_message,
                    hf_error *reterr) {
    return hfi_channels_receive(kernel->publish->channels, channel,
                                kernel->publish->signer, ret_message, reterr);
}

hfi_channels *
hfi_publish_channels(const hf_kernel *kernel) {
    return kernel->publish->channels;
}
