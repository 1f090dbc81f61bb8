/* plain_elements.c - encoding and decoding the elements of an array of objects.
 *
 * An array is a row of object references. Its elements are read and written in place:
 * there is no list, and no container to open. Atoms are written as in any list. Any
 * other element may be shared with values outside of the array. So it is put into a
 * list beside the payload, and only its place there is written. The payload holds one
 * list.
 *
 * The decoder doesn't trust its bytes: the count must be the array's, a container is
 * refused, and a place must exist in the list beside the payload.
 */
#include <stdlib.h>

#include "plain_write.h"
#include "plain_read.h"

static hf_status
encode_outside(hfi_plain_encoder *e, PyObject *object) {
    int new;
    uint32_t *index = hfi_pointer_map_put(&e->outside_index, object, &new);

    if (!index)
        return hfi_plain_fail_memory(e);
    if (new) {
        *index = (uint32_t)PyList_GET_SIZE(e->outside);
        if (PyList_Append(e->outside, object) < 0)
            return hfi_error_from_python(HF_E_NOMEM, e->reterr);
    }
    hfi_plain_pack_place(e->packer, HFI_PLAIN_OUTSIDE, *index);
    return HF_OK;
}

hf_status
hfi_plain_encode_elements(PyObject *const *elements, size_t count, PyObject *outside,
                          hfi_packer *packer, unsigned char *ret_meta,
                          hf_error *reterr) {
    /* The list has index 0, as any list at the top. */
    hfi_plain_encoder e = {
        .packer = packer, .reterr = reterr, .next_index = 1, .outside = outside};
    hf_status status = HF_OK;

    if (count >= UINT32_MAX)
        return hf_error_set(reterr, HF_DECLINED, "an array of 2**32 objects");
    hfi_pack_array(packer, count);
    for (size_t i = 0; i < count && status >= HF_OK && status != HF_DECLINED; i++) {
        PyObject *element = elements[i] ? elements[i] : Py_None;
        hfi_plain_expect(&e, &elements[i], (Py_ssize_t)(count - i));
        if (hfi_write_atom(&e, element))
            continue;
        status = hfi_plain_is_atom(element) ? hfi_plain_encode_object(&e, element)
                                            : encode_outside(&e, element);
    }
    status = status == HF_STOP ? HF_OK : status;
    if (!status && hfi_packer_failed(packer))
        status = hfi_plain_fail_memory(&e);
    ret_meta[0] = HFI_PLAIN_FORMAT;
    ret_meta[1] = (unsigned char)e.flags;
    hfi_pointer_map_fini(&e.seen);
    hfi_pointer_map_fini(&e.outside_index);
    return status;
}

static hf_status
decode_elements(hfi_decoder *d, PyObject **elements, size_t count) {
    hfi_item head;
    hf_status status = HF_OK;

    if (hfi_unpacker_next(&d->unpacker, &head) != HF_OK ||
        head.kind != HFI_ITEM_ARRAY || head.size != count)
        return hfi_plain_corrupt(d, "another number of elements");
    status = hfi_plain_remember(d, NULL); /* the list, which nothing may refer to */
    for (size_t i = 0; !status && i < count; i++) {
        PyObject *value = NULL;
        status = hfi_read_atom(d, &value);
        if (!status)
            Py_XSETREF(elements[i], value);
    }
    if (status == HF_STOP)
        return hfi_plain_corrupt(d, "a container among the elements of an array");
    if (!status && d->unpacker.at != d->unpacker.end)
        return hfi_plain_corrupt(d, "more than one value");
    return status;
}

hf_status
hfi_plain_decode_elements(const hf_source *source, PyObject *outside,
                          PyObject **elements, size_t count, hf_error *reterr) {
    const unsigned char *meta = source->meta;
    hfi_decoder d = {.outside = outside, .reterr = reterr};
    hf_status status = hfi_plain_check_meta(meta, source->meta_size, reterr);

    if (status)
        return status;
    d.flags = meta[1];
    hfi_unpacker_init(&d.unpacker, source->payload, source->payload_size);
    status = decode_elements(&d, elements, count);
    free(d.objects);
    return status;
}
