/* test_frame.c - frames there and back, and hostile ones. */
#include "../support/check.h"
#include "workers/frame.h"

static void
test_round_trip(void) {
    hfi_frame frame;
    hfi_map map = {0};
    hfi_frame_init(&frame, "request", 4);
    hfi_frame_add_integer(&frame, "id", -5);
    hfi_frame_add_bytes(&frame, "content", hfi_part_of("\0\xff", 2));
    hfi_frame_add_flag(&frame, "flag", 1);
    hfi_frame_add_array(&frame, "list", 2);
    hfi_frame_put_text(&frame, hfi_part_text("a"));
    hfi_frame_put_bytes(&frame, hfi_part_text("b"));
    CHECK(hfi_frame_finish(&frame, NULL) == HF_OK);
    size_t size = frame.buffer.size;
    const unsigned char *p = (const unsigned char *)frame.buffer.data;
    CHECK(p[0] == 0 && p[1] == 0 && p[2] == 0 && p[3] == size - 4);
    CHECK(hfi_map_read(&map, p + 4, size - 4, NULL) == HF_OK);
    CHECK(hfi_part_equal(hfi_map_part(map.object, "op"), hfi_part_text("request")));
    CHECK(hfi_map_integer(map.object, "id", 0) == -5);
    CHECK(hfi_map_integer(map.object, "op", 9) == 9);
    CHECK(hfi_map_part(map.object, "content").size == 2);
    CHECK(hfi_map_get(map.object, "list")->via.array.size == 2);
    CHECK(hfi_map_get(map.object, "none") == NULL);
    for (size_t cut = 0; cut < size - 4; cut++) /* no prefix is a frame */
        CHECK(!hfi_frame_is_valid(p + 4, cut));
    hfi_map_fini(&map);
    hfi_frame_fini(&frame);
}

static void
refuse(const char *bytes, size_t size) {
    hfi_map map = {0};
    CHECK(hfi_map_read(&map, bytes, size, NULL) == HF_E_PROTOCOL);
    CHECK(map.object == NULL);
}

static void
test_hostile(void) {
    char deep[1000];
    refuse("", 0);
    refuse("\xc1", 1);                     /* never used */
    refuse("\xdd\xff\xff\xff\xff", 5);     /* array of 4 billion */
    refuse("\xdf\xff\xff\xff\xff", 5);     /* map of 4 billion */
    refuse("\xc6\xff\xff\xff\xff", 5);     /* bin of 4 GiB */
    refuse("\xdb\x7f\xff\xff\xff", 5);     /* str of 2 GiB */
    refuse("\xc9\xff\xff\xff\xff\x01", 6); /* extension */
    refuse("\x80\x80", 2);                 /* two values */
    refuse("\x81\xa1k\xdd\0\0\0\x05\xdd\0\0\0\x05\xc0\xc0\xc0\xc0\xc0\xc0",
           19);        /* each count fits, their sum doesn't */
    refuse("\x90", 1); /* not a map */
    refuse("\x81\xa1"
           "a",
           3); /* no value */
    memset(deep, 0x91, sizeof deep);
    refuse(deep, sizeof deep);
}

/* Every value of two bytes and a tail is refused or read, never a crash. */
static void
test_all_heads(void) {
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char bytes[8] = {(char)0x81, (char)0xa1, 'k', (char)a, (char)b, 1, 1, 1};
            for (size_t size = 3; size <= sizeof bytes; size++) {
                hfi_map map = {0};
                hf_status status = hfi_map_read(&map, bytes, size, NULL);
                CHECK(status == HF_OK || status == HF_E_PROTOCOL);
                hfi_map_fini(&map);
            }
        }
}

int
main(void) {
    test_round_trip();
    test_hostile();
    test_all_heads();
    return 0;
}
