/* test_channels.c - sockets in the file system: the first to have a name keeps it. A
 * question reaches a client that is about to connect. */
#include "session/channels.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "../support/check.h"
#include "wire/connection.h"

enum { KERNELS = 8, ROUNDS = 20 };

static hf_status
create(const char *prefix, const int *ports, hfi_connection *ret_connection,
       hfi_channels **ret_channels) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"transport\":\"ipc\",\"ip\":\"%s\",\"shell_port\":%d,\"iopub_port\":%d,"
             "\"stdin_port\":%d,\"control_port\":%d,\"hb_port\":%d}",
             prefix, ports[0], ports[1], ports[2], ports[3], ports[4]);
    CHECK(hfi_connection_parse(text, strlen(text), ret_connection, NULL) == HF_OK);
    return hfi_channels_create(ret_connection, 0, ret_channels, NULL);
}

static int
mode_of(const char *prefix, int port) {
    char path[256];
    struct stat info;
    snprintf(path, sizeof path, "%s-%d", prefix, port);
    return stat(path, &info) == 0 ? (int)(info.st_mode & 0777) : -1;
}

/* Wait for the word, choose ports, send them, and keep the channels until asked. */
static void
run_child(const char *prefix, int begin, int reply, int end) {
    static const int none[5] = {0};
    hfi_connection connection;
    hfi_channels *channels = NULL;
    char word;
    CHECK(read(begin, &word, 1) == 0);
    CHECK(create(prefix, none, &connection, &channels) == HF_OK);
    CHECK(write(reply, connection.port, sizeof connection.port) ==
          (ssize_t)sizeof connection.port);
    CHECK(read(end, &word, 1) == 0);
    hfi_channels_close(channels);
    hfi_connection_fini(&connection);
    _exit(0);
}

/* Kernels that start at the same time and choose for themselves have each its own. */
static void
test_chosen_at_once(const char *prefix) {
    int begin[2], reply[2], end[2];
    char taken[5 * KERNELS + 1] = {0};
    CHECK(pipe(begin) == 0 && pipe(reply) == 0 && pipe(end) == 0);
    for (int i = 0; i < KERNELS; i++)
        if (fork() == 0) {
            close(begin[1]);
            close(end[1]);
            run_child(prefix, begin[0], reply[1], end[0]);
        }
    close(begin[1]);
    for (int i = 0; i < KERNELS; i++) {
        int ports[5];
        CHECK(read(reply[0], ports, sizeof ports) == (ssize_t)sizeof ports);
        for (int j = 0; j < 5; j++) {
            CHECK(ports[j] >= 1 && ports[j] <= 5 * KERNELS && !taken[ports[j]]);
            taken[ports[j]] = 1;
            CHECK(mode_of(prefix, ports[j]) == 0600);
        }
    }
    close(end[1]);
    for (int i = 0; i < KERNELS; i++) {
        int status = -1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    for (int i = 1; i <= 5 * KERNELS; i++)
        CHECK(mode_of(prefix, i) == -1);
    close(begin[0]);
    close(end[0]);
    close(reply[0]);
    close(reply[1]);
}

/* A name that the client chose: a dead kernel's is taken over, a living one's isn't. */
static void
test_given(const char *prefix) {
    static const int ports[5] = {1, 2, 3, 4, 5};
    hfi_connection first, second;
    hfi_channels *living = NULL, *refused = NULL;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s-1", prefix);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    close(fd); /* its file stays, as a killed kernel's does */
    CHECK(create(prefix, ports, &first, &living) == HF_OK);
    CHECK(create(prefix, ports, &second, &refused) == HF_E_SYSTEM);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    close(fd);
    hfi_channels_close(living);
    hfi_connection_fini(&first);
    hfi_connection_fini(&second);
}

/* It asked on shell; its other connection takes a moment more. */
static void
test_question(const char *prefix) {
    static const int none[5] = {0};
    hfi_connection connection;
    hfi_channels *channels = NULL;
    hfi_signer *signer = NULL;
    char endpoint[256], delimiter[16] = "";
    void *context = zmq_ctx_new(), *client = zmq_socket(context, ZMQ_DEALER);
    hfi_part ident = hfi_part_text("client");
    hfi_outgoing question = {
        .type = "input_request", .idents = &ident, .ident_count = 1};
    CHECK(create(prefix, none, &connection, &channels) == HF_OK);
    CHECK(hfi_signer_create(hfi_part_text(""), &signer, NULL) == HF_OK);
    CHECK(hfi_connection_endpoint(&connection, HFI_STDIN, endpoint, sizeof endpoint,
                                  NULL) == HF_OK);
    CHECK(zmq_setsockopt(client, ZMQ_ROUTING_ID, ident.data, ident.size) == 0);
    CHECK(zmq_connect(client, endpoint) == 0);
    CHECK(hfi_channels_send(channels, HFI_STDIN, signer, hfi_part_text("{}"), &question,
                            NULL) == HF_OK);
    CHECK(zmq_recv(client, delimiter, sizeof delimiter, 0) == 9);
    CHECK(memcmp(delimiter, "<IDS|MSG>", 9) == 0);
    zmq_close(client);
    zmq_ctx_term(context);
    hfi_signer_close(signer);
    hfi_channels_close(channels);
    hfi_connection_fini(&connection);
}

int
main(void) {
    char directory[] = "/tmp/holdfast-channels-XXXXXX", prefix[64];
    CHECK(mkdtemp(directory) != NULL);
    snprintf(prefix, sizeof prefix, "%s/k", directory);
    for (int i = 0; i < ROUNDS; i++)
        test_chosen_at_once(prefix);
    test_given(prefix);
    test_question(prefix);
    CHECK(rmdir(directory) == 0);
    return 0;
}
