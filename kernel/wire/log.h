/* log.h - lines for the log of whoever started the kernel. */
#ifndef HFI_LOG_H
#define HFI_LOG_H

/* One line on stderr, cut after a thousand characters. */
void hfi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
