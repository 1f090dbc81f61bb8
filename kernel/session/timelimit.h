/* timelimit.h - time limits that an environment variable may change. */
#ifndef HFI_TIMELIMIT_H
#define HFI_TIMELIMIT_H

/* The variable's value in seconds, as nanoseconds. Fractions count, and the maximum is
 * thirty days. Without the variable, or if it is no such number, `seconds`. */
long long hfi_limit_ns(const char *variable, double seconds);

/* The same, but 0 isn't accepted, since it would leave no time at all. */
long long hfi_limit_positive_ns(const char *variable, double seconds);

#endif
