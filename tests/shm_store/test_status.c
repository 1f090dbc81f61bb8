/* test_status.c - every status has its name, and errors keep what was written to them.
 */
#include <errno.h>

#include "store_fixture.h"

int
main(void) {
    CHECK_TEXT(hf_status_name(HF_OK), "HF_OK");
    CHECK_TEXT(hf_status_name(HF_AGAIN), "HF_AGAIN");
    CHECK_TEXT(hf_status_name(HF_PENDING), "HF_PENDING");
    CHECK_TEXT(hf_status_name(HF_INTERRUPTED), "HF_INTERRUPTED");
    CHECK_TEXT(hf_status_name(HF_E_CODEC), "HF_E_CODEC");
    const char *unknown = hf_status_name((hf_status)-1000);
    CHECK(unknown && unknown[0]);
    for (int i = -11; i <= 6; i++) { /* no two alike, none unknown */
        CHECK(strcmp(hf_status_name((hf_status)i), unknown) != 0);
        for (int k = -11; k < i; k++)
            CHECK(strcmp(hf_status_name((hf_status)i), hf_status_name((hf_status)k)) !=
                  0);
    }

    hf_error error = HF_ERROR_INIT;
    CHECK(hf_error_set(&error, HF_E_LIMIT, "%d of %s", 3, "them") == HF_E_LIMIT);
    CHECK(error.status == HF_E_LIMIT && error.sys_errno == 0);
    CHECK_TEXT(error.message, "3 of them");
    CHECK_TEXT(error.function, "main");
    hf_error_prefix(&error, "counting %s", "all");
    CHECK_TEXT(error.message, "counting all: 3 of them");
    CHECK(hf_error_set_errno(&error, ENOENT, "no file") == HF_E_SYSTEM);
    CHECK(error.sys_errno == ENOENT && strncmp(error.message, "no file", 7) == 0);
    CHECK(strstr(error.message, strerror(ENOENT)));

    char longer[2 * HF_ERROR_MESSAGE_SIZE];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK(hf_error_set(&error, HF_E_CODEC, "%s", longer) == HF_E_CODEC);
    CHECK(strlen(error.message) == HF_ERROR_MESSAGE_SIZE - 1);
    hf_error_prefix(&error, "before");
    CHECK(strncmp(error.message, "before: xxx", 11) == 0);
    CHECK(strlen(error.message) < HF_ERROR_MESSAGE_SIZE);

    CHECK(hf_error_set(NULL, HF_E_NOMEM, "no words wanted") == HF_E_NOMEM);
    hf_error_prefix(NULL, "none");
    return 0;
}
