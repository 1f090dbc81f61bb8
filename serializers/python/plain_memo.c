/* plain_memo.c - the index of each object in an encoding, and references to it.
 *
 * Objects are indexed in the order in which they begin. But only objects with a
 * reference count above one can be met twice, since the container that is walked holds
 * one reference. The others never enter the memo. So a list of a million fresh strings
 * takes no longer than its memcpy. The value at the top is remembered separately, since
 * its references belong to the caller. So a small value needs no memo.
 */
#include "plain_encoder.h"

void
hfi_plain_pack_ext(hfi_packer *packer, enum hfi_plain_ext type, const void *body,
                   size_t size) {
    hfi_pack_ext(packer, size, (int8_t)type);
    hfi_packer_append(packer, body, size);
}

void
hfi_plain_pack_place(hfi_packer *packer, enum hfi_plain_ext type, uint32_t index) {
    unsigned char body[4] = {(unsigned char)(index >> 24), (unsigned char)(index >> 16),
                             (unsigned char)(index >> 8), (unsigned char)index};
    size_t width = index <= 0xff ? 1 : index <= 0xffff ? 2 : 4;

    hfi_plain_pack_ext(packer, type, body + 4 - width, width);
}

static void
pack_reference(hfi_plain_encoder *e, uint32_t index) {
    hfi_plain_pack_place(e->packer, HFI_PLAIN_REF, index);
    e->flags |= HFI_PLAIN_SHARED;
}

hf_status
hfi_plain_look_up(hfi_plain_encoder *e, PyObject *object) {
    int new = 1;

    if (e->next_index == 0) {
        e->top = object;
    } else if (object == e->top) {
        pack_reference(e, 0);
        return HF_STOP;
    } else {
        uint32_t *index = hfi_pointer_map_put(&e->seen, object, &new);
        if (!index)
            return hfi_plain_fail_memory(e);
        if (!new) {
            pack_reference(e, *index);
            return HF_STOP;
        }
        *index = e->next_index;
    }
    if (e->next_index == UINT32_MAX)
        return hfi_plain_decline(e, object, " (more than 2**32 objects)");
    e->next_index++;
    return HF_OK;
}
