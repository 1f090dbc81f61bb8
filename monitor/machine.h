/* machine.h - what the whole machine uses, and what it has. */
#ifndef HFI_MACHINE_H
#define HFI_MACHINE_H

#include "holdfast/monitor.h"

/* One thread at a time. */
typedef struct hfi_machine hfi_machine;

/* HF_E_NOMEM. */
HF_CHECK hf_status hfi_machine_create(hfi_machine **ret_machine, hf_error *reterr);
void hfi_machine_close(hfi_machine *machine);

/* Cores of which the kernel reports each. */
uint32_t hfi_machine_cores(const hfi_machine *machine);
/* Bytes of memory. */
double hfi_machine_memory(const hfi_machine *machine);
/* What was used since the machine started, and its processors' times: `ret_busy` has a
 * number of seconds for each core. 0 if the system doesn't report it. */
int hfi_machine_read(hfi_machine *machine, hf_monitor_reading *ret_reading,
                     double *ret_busy);

#endif
