/* timelimit.h - how long something may take, which a variable of the environment may set. */
#ifndef HFI_TIMELIMIT_H
#define HFI_TIMELIMIT_H

/* The variable's value, in seconds, as nanoseconds: at most thirty days, and fractions
 * count. Without the variable, or if it is no such number, `seconds`. */
long long hfi_limit_ns(const char *variable, double seconds);

/* The same, where a limit of 0 would let nothing happen: it is no such number either. */
long long hfi_limit_positive_ns(const char *variable, double seconds);

#endif
