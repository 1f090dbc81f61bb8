/* descriptors.h - the descriptors of a fork: which it has, and what is in the place of others.
 *
 * A sleeping fork must not hold what the program believes closed: the reader of a pipe
 * would wait for ever for its end, and a port would stay taken. So it gives up pipes,
 * sockets and the like at once; in their place is a descriptor that nothing can be done
 * with, so that their numbers aren't taken by something else: so do terminals. Of files
 * and directories it keeps only the places (O_PATH) while it sleeps: a file that is open
 * for writing can't be executed, and to open one is an event that a watch reports. When
 * it wakes it opens them again, at the offsets where they stood.
 */
#ifndef HFI_DESCRIPTORS_H
#define HFI_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

#define HFI_DESCRIPTORS_MAX 16

/* In the fork, `from` takes the place of `to`. */
typedef struct hfi_descriptor_move {
    int from, to;
} hfi_descriptor_move;

typedef struct hfi_file_place {
    int fd;
    int flags; /* with which it was opened */
    off_t offset;
} hfi_file_place;

typedef struct hfi_descriptors {
    hfi_descriptor_move moves[HFI_DESCRIPTORS_MAX]; /* the control channel's first */
    size_t move_count;
    int kept[HFI_DESCRIPTORS_MAX];
    size_t kept_count;
    hfi_file_place
        *places; /* of files, as they are at the fork: soon the parent moves on */
    size_t place_count;
} hfi_descriptors;

/* All return -1 with errno set if they can't. */

/* Note where each open file and directory stands that isn't kept, before a sleeping fork is
 * made. The caller frees `places`. */
int hfi_descriptors_note_places(hfi_descriptors *at);

/* In the fork's table of descriptors: move what moves. */
int hfi_descriptors_move(const hfi_descriptors *at);

/* Close those that moved, unless they are needed. */
void hfi_descriptors_close_moved(const hfi_descriptors *at);

/* Close all but the kept ones, those that moved, and stdin, which is empty. */
int hfi_descriptors_close_others(const hfi_descriptors *at);

/* Give up what others may wait for the end of, and keep the places of files. */
int hfi_descriptors_give_up(const hfi_descriptors *at);

/* In a fork that wakes: files as they were. One that can't be opened stays what nothing can
 * be done with. */
void hfi_descriptors_open_files(const hfi_descriptors *at);

#endif
