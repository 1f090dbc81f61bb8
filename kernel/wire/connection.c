/* connection.c - reading and completing a connection file.
 *
 * The file is a small JSON object from the client: transport, address, five ports, key
 * and signature scheme. If ports are 0 or missing, the kernel chooses them and writes
 * the file back, with every key that was in it. It writes a new file of mode 0600 and
 * renames it over the old one. So a client that polls the file reads the old or the new
 * text, never a part, and nobody else can read the key at any moment.
 *
 * The file is input: its size is bounded, its types and ranges are checked, and only
 * the protocol's signature scheme is accepted. CurveZMQ's keys, if there are any, are
 * in curve_publickey and curve_secretkey, where jupyter_client 8.9 and later write
 * them. A program that reads the file can run code as this user. If a client has left
 * it open to others, its mode is changed, and the caller can warn. There are no sockets
 * here, so that a fuzzer can run the parser. One thread.
 */
#include "wire/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE_MAX  (1u << 20)
#define CURVE_KEY_TEXT 40 /* characters of Z85 */

static const char *const channel_names[HFI_CHANNEL_COUNT] = {"shell", "iopub", "stdin",
                                                             "control", "hb"};

const char *
hfi_channel_name(int channel) {
    return channel_names[channel];
}

static hf_status
take_text(json_t *file, const char *name, const char *fallback, char **ret_text,
          hf_error *reterr) {
    json_t *value = json_object_get(file, name);
    if (value != NULL && !json_is_string(value))
        return hf_error_set(reterr, HF_E_INVALID, "%s is not a string", name);
    *ret_text = strdup(value != NULL ? json_string_value(value) : fallback);
    if (*ret_text == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the connection file");
    return HF_OK;
}

/* Read the ports. If the file has none, we choose all. */
static hf_status
take_ports(hfi_connection *connection, hf_error *reterr) {
    const char *missing = NULL;
    int count = 0;
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_port", channel_names[i]);
        json_t *value = json_object_get(connection->file, name);
        if (value == NULL) {
            missing = channel_names[i];
            continue;
        }
        json_int_t port = json_integer_value(value);
        if (!json_is_integer(value) || port < 0 || port > 65535)
            return hf_error_set(reterr, HF_E_INVALID, "%s is not a port", name);
        connection->port[i] = (int)port;
        count++;
    }
    if (count > 0 && missing != NULL)
        return hf_error_set(reterr, HF_E_INVALID,
                            "%s_port is missing (0: the kernel chooses it)", missing);
    return HF_OK;
}

static hf_status
take_scheme(const hfi_connection *connection, hf_error *reterr) {
    json_t *value = json_object_get(connection->file, "signature_scheme");
    if (value == NULL || connection->key[0] == '\0')
        return HF_OK;
    if (!json_is_string(value) || strcmp(json_string_value(value), "hmac-sha256") != 0)
        return hf_error_set(reterr, HF_E_INVALID,
                            "the signature scheme is not hmac-sha256");
    return HF_OK;
}

/* NULL if the key is absent or empty. */
static hf_status
take_curve_key(json_t *file, const char *name, char **ret_key, hf_error *reterr) {
    hf_status status = take_text(file, name, "", ret_key, reterr);
    if (status != HF_OK)
        return status;
    size_t length = strlen(*ret_key);
    if (length == 0) {
        free(*ret_key);
        *ret_key = NULL;
    } else if (length != CURVE_KEY_TEXT) {
        return hf_error_set(reterr, HF_E_INVALID, "%s is not a key of %d characters",
                            name, CURVE_KEY_TEXT);
    }
    return HF_OK;
}

static hf_status
take_curve_keys(hfi_connection *connection, hf_error *reterr) {
    hf_status status = take_curve_key(connection->file, "curve_publickey",
                                      &connection->curve_public, reterr);
    if (status == HF_OK)
        status = take_curve_key(connection->file, "curve_secretkey",
                                &connection->curve_secret, reterr);
    if (status == HF_OK &&
        (connection->curve_public == NULL) != (connection->curve_secret == NULL))
        return hf_error_set(reterr, HF_E_INVALID,
                            "curve_publickey or curve_secretkey is missing");
    return status;
}

hf_status
hfi_connection_parse(const char *text, size_t size, hfi_connection *ret_connection,
                     hf_error *reterr) {
    hfi_connection *connection = ret_connection;
    char *transport = NULL;
    json_error_t where;
    memset(connection, 0, sizeof *connection);
    connection->file = json_loadb(text, size, 0, &where);
    if (!json_is_object(connection->file))
        return hf_error_set(reterr, HF_E_INVALID, "not a JSON object: %s", where.text);
    hf_status status =
        take_text(connection->file, "transport", "tcp", &transport, reterr);
    if (status != HF_OK)
        return status;
    connection->ipc = strcmp(transport, "ipc") == 0;
    int known = connection->ipc || strcmp(transport, "tcp") == 0;
    free(transport);
    if (!known)
        return hf_error_set(reterr, HF_E_INVALID, "the transport is not tcp or ipc");
    status =
        take_text(connection->file, "ip", connection->ipc ? "kernel-ipc" : "127.0.0.1",
                  &connection->ip, reterr);
    if (status == HF_OK)
        status = take_text(connection->file, "key", "", &connection->key, reterr);
    if (status == HF_OK)
        status = take_ports(connection, reterr);
    if (status == HF_OK)
        status = take_scheme(connection, reterr);
    if (status == HF_OK)
        status = take_curve_keys(connection, reterr);
    return status;
}

/* Close the file to other users, if it is ours. Returns nonzero if others could read
 * it. */
static int
close_to_others(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 || (info.st_mode & 077) == 0)
        return 0;
    (void)fchmod(fd, 0600);
    return 1;
}

hf_status
hfi_connection_read(const char *path, hfi_connection *ret_connection,
                    hf_error *reterr) {
    memset(ret_connection, 0, sizeof *ret_connection);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return hf_error_set_errno(reterr, errno, "connection file %s", path);
    int exposed = close_to_others(fileno(stream));
    char *text = malloc(FILE_SIZE_MAX);
    size_t size = text != NULL ? fread(text, 1, FILE_SIZE_MAX, stream) : 0;
    fclose(stream);
    hf_status status;
    if (text == NULL)
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory for the connection file");
    else
        status = hfi_connection_parse(text, size, ret_connection, reterr);
    free(text);
    ret_connection->exposed = exposed;
    if (status == HF_OK) {
        ret_connection->path = strdup(path);
        if (ret_connection->path == NULL)
            status = hf_error_set(reterr, HF_E_NOMEM, "no memory");
    }
    if (status != HF_OK)
        hf_error_prefix(reterr, "connection file %s", path);
    return status;
}

static hf_status
write_whole(int fd, const char *text, size_t size, hf_error *reterr) {
    while (size > 0) {
        ssize_t done = write(fd, text, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return hf_error_set_errno(reterr, errno, "writing the connection file");
        text += done;
        size -= (size_t)done;
    }
    return HF_OK;
}

static hf_status
replace_file(const char *path, const char *text, hf_error *reterr) {
    size_t size = strlen(path) + 8;
    char *temporary = malloc(size);
    if (temporary == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    snprintf(temporary, size, "%s.XXXXXX", path);
    hf_status status;
    int fd = mkstemp(temporary); /* mode 0600 */
    if (fd < 0) {
        status = hf_error_set_errno(reterr, errno, "writing beside %s", path);
    } else {
        status = write_whole(fd, text, strlen(text), reterr);
        close(fd);
        if (status == HF_OK && rename(temporary, path) != 0)
            status = hf_error_set_errno(reterr, errno, "renaming to %s", path);
        if (status != HF_OK)
            unlink(temporary);
    }
    free(temporary);
    return status;
}

hf_status
hfi_connection_write(const hfi_connection *connection, hf_error *reterr) {
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_port", channel_names[i]);
        if (json_object_set_new(connection->file, name,
                                json_integer(connection->port[i])) != 0)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    }
    char *text = json_dumps(connection->file, JSON_INDENT(2));
    if (text == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    hf_status status = replace_file(connection->path, text, reterr);
    free(text);
    return status;
}

hf_status
hfi_connection_endpoint(const hfi_connection *connection, int channel, char *ret_text,
                        size_t size, hf_error *reterr) {
    int port = connection->port[channel];
    int length;
    if (connection->ipc)
        length = snprintf(ret_text, size, "ipc://%s-%d", connection->ip, port);
    else if (port == 0)
        length = snprintf(ret_text, size, "tcp://%s:*", connection->ip);
    else
        length = snprintf(ret_text, size, "tcp://%s:%d", connection->ip, port);
    if (length < 0 || (size_t)length >= size)
        return hf_error_set(reterr, HF_E_INVALID, "the address is too long");
    return HF_OK;
}

void
hfi_connection_fini(hfi_connection *connection) {
    json_decref(connection->file);
    free(connection->path);
    free(connection->ip);
    free(connection->key);
    free(connection->curve_public);
    free(connection->curve_secret);
    memset(connection, 0, sizeof *connection);
}
