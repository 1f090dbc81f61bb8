/* test_event_log.c - events are read as they were put, whatever the time between them,
 * and clocks have a rate.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/check.h"
#include "recorder/event_log.h"
#include "recorder/log_file.h"

static hfi_event_log event_log;
static hfi_event_reader reader;

static hfi_log_event
next(void) {
    hfi_log_event event = {0};
    CHECK(hfi_event_read(&event_log, &reader, &event));
    return event;
}

static void
begin(uint64_t base) {
    CHECK(hfi_event_log_init(&event_log, 0, NULL, 0) == HF_OK);
    event_log.base = base;
    hfi_event_log_clear(&event_log);
    reader = (hfi_event_reader){0};
    hfi_event_log_rewind(&event_log, &reader);
}

static void
end(void) {
    hfi_log_event event;
    CHECK(!hfi_event_read(&event_log, &reader, &event));
    hfi_event_log_fini(&event_log);
    CHECK(!event_log.words);
}

static void
test_enter_and_leave(void) {
    begin(1000);
    hfi_event_log_put(&event_log, 1010, HFI_LOG_REGION(HFI_REGION_MAX - 1));
    hfi_event_log_put(&event_log, 1020,
                      HFI_LOG_REGION(HFI_REGION_MAX - 1) | HFI_LOG_LEAVE |
                          HFI_LOG_UNTRACED);
    hfi_log_event event = next();
    CHECK(event.kind == HFI_EVENT_ENTER && event.time == 1010 && !event.untraced);
    CHECK(event.subject == HFI_REGION_MAX - 1);
    event = next();
    CHECK(event.kind == HFI_EVENT_LEAVE && event.time == 1020 && event.untraced);
    end();
}

/* Longer than 40 bits of ticks, and a counter that is behind. */
static void
test_distant_times(void) {
    uint64_t far = 1000 + ((uint64_t)1 << 41);
    begin(1000);
    hfi_event_log_put(&event_log, far, HFI_LOG_REGION(1));
    hfi_event_log_put(&event_log, far - 5, HFI_LOG_REGION(2));
    hfi_event_log_put(&event_log, far + 5, HFI_LOG_REGION(3));
    CHECK(next().time == far);
    hfi_log_event event = next();
    CHECK(event.time == far && event.subject == 2);
    CHECK(next().time == far + 5);
    end();
}

static void
test_parameters_and_marks(void) {
    begin(0);
    hfi_log_event put = {
        .kind = HFI_EVENT_PARAMETER_INT, .subject = 7, .value = (uint64_t)INT64_MIN};
    hfi_event_log_add(&event_log, (uint64_t)1 << 50, &put);
    hfi_event_log_add(&event_log, ((uint64_t)1 << 50) + 1,
                      &(hfi_log_event){.kind = HFI_EVENT_RECORDING_OFF});
    hfi_log_event event = next();
    CHECK(event.kind == HFI_EVENT_PARAMETER_INT && event.subject == 7);
    CHECK((int64_t)event.value == INT64_MIN && event.time == (uint64_t)1 << 50);
    CHECK(next().kind == HFI_EVENT_RECORDING_OFF);
    end();
}

/* Whoever looks after each event has room for the longest one. */
static void
test_the_last_event_fits(void) {
    hfi_log_event parameter = {.kind = HFI_EVENT_PARAMETER_UINT};
    begin(0);
    uint64_t now = 0, count = 0;
    for (; !hfi_event_log_is_full(&event_log); count++)
        hfi_event_log_add(&event_log, now += (uint64_t)1 << 42, &parameter);
    for (uint64_t i = 1; i <= count; i++)
        CHECK(next().time == i << 42);
    end();
}

/* Two looks at the clocks may come from a damaged file: what comes of them is divided
 * by and multiplied with. */
static void
test_rates(void) {
    hfi_instant begin = {1000, 1000};
    CHECK(hfi_clock_rate(begin, (hfi_instant){4000, 2000}) == 3000000000u);
    CHECK(hfi_clock_rate(begin, begin) == 1000000000u);
    CHECK(hfi_clock_rate(begin, (hfi_instant){1001, UINT64_MAX}) == 1000000000u);
    CHECK(hfi_clock_rate(begin, (hfi_instant){UINT64_MAX, 1001}) == 1000000000u);
}

/* To get it takes longer than to write thousands of events; who extends the log measures
 * that. */
static void
test_an_event_waits_for_no_page(void) {
    char path[] = "/tmp/hf-log-XXXXXX";
    hfi_definitions *definitions;
    hfi_log_head head = {0};
    hfi_log_file *file;
    struct rusage before, after;
    CHECK(mkdtemp(path) && chdir(path) == 0);
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    CHECK(hfi_log_file_create("log-0", &head, 0, definitions, &file, NULL) == HF_OK);
    CHECK(hfi_event_log_init(&event_log, 1 << 20, file, 0) == HF_OK);
    do {
        uint64_t *first_of_part = event_log.end;
        while ((uintptr_t)first_of_part % 4096 != 0)
            first_of_part++;
        CHECK(hfi_event_log_extend(&event_log) == HF_OK);
        CHECK(getrusage(RUSAGE_SELF, &before) == 0);
        *(volatile uint64_t *)first_of_part = 0;
        CHECK(getrusage(RUSAGE_SELF, &after) == 0);
        CHECK(after.ru_minflt + after.ru_majflt == before.ru_minflt + before.ru_majflt);
    } while (event_log.end < event_log.words + (1 << 20) / 16);
    hfi_event_log_fini(&event_log);
    hfi_log_file_close(file);
    hfi_definitions_close(definitions);
    CHECK(unlink("log-0") == 0 && rmdir(path) == 0);
}

int
main(void) {
    test_enter_and_leave();
    test_distant_times();
    test_parameters_and_marks();
    test_the_last_event_fits();
    test_an_event_waits_for_no_page();
    test_rates();
    return 0;
}
