/* test_connection.c - connection files good and bad, and writing the ports back. */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "wire/connection.h"

/* Forty characters of Z85. */
#define KEY "0123456789abcdefghijklmnopqrstuvwxyzABCD"

/* All five ports of one number. */
#define PORT(channel, number) "\"" channel "_port\": " #number
#define PORTS_BUT_SHELL(number)                                                        \
    PORT("iopub", number)                                                              \
    ", " PORT("stdin", number) ", " PORT("control", number) ", " PORT("hb", number)
#define PORTS(number) PORT("shell", number) ", " PORTS_BUT_SHELL(number)

static void
expect(const char *text, hf_status wanted) {
    hfi_connection connection;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_connection_parse(text, strlen(text), &connection, &error);
    if (status != wanted)
        fprintf(stderr, "%s: %s\n", text, error.message);
    CHECK(status == wanted);
    CHECK(status == HF_OK || error.message[0] != '\0');
    hfi_connection_fini(&connection);
}

static void
test_write(void) {
    char path[] = "/tmp/holdfast-connection-XXXXXX";
    const char text[] = "{" PORTS(0) ", \"key\": \"k\", \"kernel_name\": \"kept\"}";
    hfi_connection connection, again;
    struct stat info;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, 0644) == 0 && close(fd) == 0);
    CHECK(hfi_connection_read(path, &connection, NULL) == HF_OK);
    CHECK(connection.exposed);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    connection.port[HFI_SHELL] = 4711;
    CHECK(hfi_connection_write(&connection, NULL) == HF_OK);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    CHECK(hfi_connection_read(path, &again, NULL) == HF_OK);
    CHECK(again.port[HFI_SHELL] == 4711 && !again.exposed);
    CHECK_TEXT(again.key, "k");
    CHECK_TEXT(json_string_value(json_object_get(again.file, "kernel_name")), "kept");
    hfi_connection_fini(&connection);
    hfi_connection_fini(&again);
    CHECK(unlink(path) == 0);
    CHECK(hfi_connection_read(path, &again, NULL) == HF_E_SYSTEM);
    hfi_connection_fini(&again);
}

static void
expect_endpoint(const char *text, const char *wanted) {
    hfi_connection connection;
    char endpoint[64];
    CHECK(hfi_connection_parse(text, strlen(text), &connection, NULL) == HF_OK);
    CHECK(hfi_connection_endpoint(&connection, HFI_IOPUB, endpoint, sizeof endpoint,
                                  NULL) == HF_OK);
    CHECK_TEXT(endpoint, wanted);
    CHECK(hfi_connection_endpoint(&connection, HFI_IOPUB, endpoint, 4, NULL) ==
          HF_E_INVALID);
    hfi_connection_fini(&connection);
}

int
main(void) {
    expect("{}", HF_OK);
    expect("", HF_E_INVALID);
    expect("[]", HF_E_INVALID);
    expect("{\"shell_port\":", HF_E_INVALID);
    expect("{\"shell_port\": -1}", HF_E_INVALID);
    expect("{\"shell_port\": 65536}", HF_E_INVALID);
    expect("{\"hb_port\": \"1\"}", HF_E_INVALID);
    expect("{" PORTS(65535) "}", HF_OK);
    expect("{\"shell_port\": 1}", HF_E_INVALID);
    expect("{" PORTS_BUT_SHELL(1) "}", HF_E_INVALID);
    expect("{\"transport\": \"udp\"}", HF_E_INVALID);
    expect("{\"transport\": 3}", HF_E_INVALID);
    expect("{\"key\": 3}", HF_E_INVALID);
    expect("{\"key\": \"k\", \"signature_scheme\": \"hmac-md5\"}", HF_E_INVALID);
    expect("{\"key\": \"k\", \"signature_scheme\": \"hmac-sha256\"}", HF_OK);
    expect("{\"key\": \"\", \"signature_scheme\": \"hmac-md5\"}", HF_OK);
    expect("{\"curve_publickey\": \"" KEY "\", \"curve_secretkey\": \"" KEY "\"}",
           HF_OK);
    expect("{\"curve_publickey\": \"\", \"curve_secretkey\": \"\"}", HF_OK);
    expect("{\"curve_publickey\": \"" KEY "\"}", HF_E_INVALID);
    expect("{\"curve_secretkey\": \"" KEY "\"}", HF_E_INVALID);
    expect("{\"curve_publickey\": \"short\", \"curve_secretkey\": \"" KEY "\"}",
           HF_E_INVALID);
    expect("{\"curve_publickey\": 3, \"curve_secretkey\": \"" KEY "\"}", HF_E_INVALID);
    expect_endpoint("{" PORTS(81) "}", "tcp://127.0.0.1:81");
    expect_endpoint("{\"ip\": \"0.0.0.0\"}", "tcp://0.0.0.0:*");
    expect_endpoint("{\"transport\": \"ipc\", \"ip\": \"/tmp/k\", " PORTS(2) "}",
                    "ipc:///tmp/k-2");
    test_write();
    return 0;
}
