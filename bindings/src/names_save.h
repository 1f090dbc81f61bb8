/* names_save.h - what the files of Names.save() share. Private to bindings/src. */
#ifndef HFI_NAMES_SAVE_H
#define HFI_NAMES_SAVE_H

#include "graph.h"
#include "names.h"

/* A name, or a class of the notebook that the walk found, whose value is looked at. */
typedef struct hfi_member {
    PyObject *key;             /* owned */
    PyObject *value;           /* owned */
    PyObject *group;           /* owned: key of the group that has the value; or NULL */
    Py_ssize_t namespace_refs; /* that functions behind it hold */
    uint32_t root; /* in the graph; HFI_NO_ROOT: an atom, which shares nothing */
    uint8_t is_class;
    uint8_t is_declined;
    uint8_t is_saved;     /* put, or its group */
    uint8_t is_untouched; /* looked at for its group's sake, perhaps */
    uint8_t is_verified;  /* would be passed over, but `verify` asks to look */
    uint8_t is_closed;    /* nobody else can change it: graph.h */
} hfi_member;

#define HFI_NO_ROOT UINT32_MAX

typedef struct hfi_save {
    hfi_state *state;
    hfi_names *names;
    PyObject *namespace;
    PyObject *hidden;
    PyObject *own;          /* set of the classes that are encoded by value now */
    PyObject *groups_used;  /* set of group keys of this save */
    PyObject *lost_classes; /* set of identifiers of classes that were declined */
    PyObject *removed;
    PyObject
        *touched; /* set of names that code may have changed; NULL: any. Borrowed */
    PyObject
        *holders; /* tuple of dicts whose references are known, or NULL. Borrowed */
    PyObject *hot_groups; /* set of keys: groups with a name that is looked at */
    PyObject *classes; /* list: known classes of the notebook, where `touched` is set */
    PyObject *code;    /* key -> list of functions and classes behind it */
    PyObject *held;    /* list of keys with code that somebody else holds */
    PyObject *numbers; /* key -> list of numbers in it that may be addresses */
    int verify;        /* look at what would be passed over, too */
    PyObject **others; /* owned: what hidden names and holders refer to */
    size_t other_count;
    size_t other_room;
    uint64_t encoded;  /* values */
    hf_commit *commit; /* begun with the first change */
    hfi_entry_sink sink;
    hfi_member *members;
    size_t count;
    size_t member_room;     /* for names; classes come later */
    uint32_t *walked;       /* of each root of the graph, its member */
    uint64_t decoded_again; /* entries, to compare a pickle with */
    hf_error error;         /* of the call that failed or declined last */
} hfi_save;

/* All give -1 with an exception set. */

/* names_collect.c: the names to look at. */
int hfi_save_collect(hfi_save *at);

/* names_code.c: what the walk found besides groups. */

/* Which members are closed, and the code behind them. */
int hfi_save_learn(hfi_save *at, hfi_graph *graph);
/* Remember with the record that will hold what was learnt of a member. */
int hfi_save_remember(hfi_record *record, const hfi_member *one);
/* Of names that no record speaks of. */
void hfi_save_count_declined(hfi_save *at);

/* names_put.c: one value at a time. */

/* Good until the next one is put; NULL where there is none. */
hfi_record *hfi_save_record(hfi_save *at, PyObject *key);
/* The record that will hold after this commit; the same. */
hfi_record *hfi_save_record_after(hfi_save *at, PyObject *key);
int hfi_save_remove(hfi_save *at, PyObject *key);
/* Encode into the sink; `subject` as for hfi_names_encode. HF_DECLINED with words in
 * `error`; negative with an exception.
 */
hf_status hfi_save_encode(hfi_save *at, PyObject *value, PyObject *subject,
                          uint32_t *ret_codec);
/* Put what the sink has where it differs from the record: 1 if so, 0 if not. Gives the
 * record that will hold, borrowed; `ret_record` may be NULL. */
int hfi_save_put(hfi_save *at, PyObject *key, uint32_t codec, PyObject *group,
                 hfi_record **ret_record);
/* Encode and put a value that is in no group, or decline it. */
int hfi_save_single(hfi_save *at, hfi_member *one);
/* Encode and put "the value of this name is in that group". */
int hfi_save_member(hfi_save *at, hfi_member *one);
int hfi_save_decline(hfi_save *at, hfi_member *one, const char *why);
/* It is carried: forget why it wasn't before. */
int hfi_save_accept(hfi_save *at, const hfi_member *one);
/* Make the classes among these the ones that are encoded by value. */
int hfi_save_own_classes(hfi_save *at, hfi_member *const *list, size_t count);

/* names_stored.c: is the sink's encoding what the record speaks of? 1 or 0. */
int hfi_save_matches(hfi_save *at, PyObject *key, hfi_record *record, uint32_t codec);

/* names_group.c: find the groups, put them, then the names in their order. */
int hfi_save_members(hfi_save *at);

/* names_sweep.c: what the user deleted, and what nothing refers to any more. */
int hfi_save_sweep(hfi_save *at);

#endif
