// array_reader.rs - the mean of a notebook's array of float64, in Rust.
//
//   rustc array_reader.rs -L native=$(pkg-config --variable=libdir holdfast) -l holdfast -o mean
//   ./mean /holdfast-1000-0123456789abcdef x
//
// The structs are those of holdfast/array.h and holdfast/error.h.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

#[repr(C)]
struct HfArray {
    struct_size: usize,
    kind: c_char,
    byte_order: c_char,
    unit: [c_char; 8],
    itemsize: u32,
    dimensions: u32,
    shape: [i64; 64],
    strides: [i64; 64],
    data: *mut c_void,
    valid: *const u8,
    region: *mut c_void,
    internal: *mut c_void,
}

extern "C" {
    fn hf_session_open(name: *const c_char, session: *mut *mut c_void, error: *mut c_void) -> c_int;
    fn hf_session_close(session: *mut c_void);
    fn hf_snapshot_acquire(session: *mut c_void, snapshot: *mut *mut c_void, error: *mut c_void) -> c_int;
    fn hf_snapshot_release(snapshot: *mut c_void);
    fn hf_array_of(
        snapshot: *mut c_void,
        key: *const c_char,
        key_size: usize,
        array: *mut HfArray,
        error: *mut c_void,
    ) -> c_int;
    fn hf_array_release(array: *mut HfArray);
    fn hf_status_name(status: c_int) -> *const c_char;
}

fn check(status: c_int, what: &str) {
    if status != 0 {
        let name = unsafe { CStr::from_ptr(hf_status_name(status)) };
        eprintln!("{what}: {}", name.to_string_lossy());
        std::process::exit(1);
    }
}

/// The sum of all elements behind `at`, from this axis on, and how many they are.
unsafe fn sum(array: &HfArray, at: *const u8, axis: usize) -> (f64, u64) {
    if axis == array.dimensions as usize {
        return (at.cast::<f64>().read_unaligned(), 1);
    }
    let mut all = (0.0, 0);
    for i in 0..array.shape[axis] {
        let part = sum(array, at.offset((i * array.strides[axis]) as isize), axis + 1);
        all = (all.0 + part.0, all.1 + part.1);
    }
    all
}

fn main() {
    let words: Vec<CString> = std::env::args().map(|word| CString::new(word).unwrap()).collect();
    assert!(words.len() == 3, "usage: mean SESSION VARIABLE");
    let (mut session, mut snapshot) = (null_mut(), null_mut());
    unsafe {
        let mut array: HfArray = zeroed();
        array.struct_size = size_of::<HfArray>();
        check(hf_session_open(words[1].as_ptr(), &mut session, null_mut()), "session");
        check(hf_snapshot_acquire(session, &mut snapshot, null_mut()), "snapshot");
        let key = &words[2];
        check(hf_array_of(snapshot, key.as_ptr(), key.as_bytes().len(), &mut array, null_mut()), "array");
        hf_snapshot_release(snapshot);
        let native = if cfg!(target_endian = "little") { b'<' } else { b'>' };
        let is_float = array.kind as u8 == b'f' && array.itemsize == 8;
        assert!(is_float && array.byte_order as u8 == native, "not of float64");
        let (total, count) = sum(&array, array.data.cast(), 0);
        println!("{count} values, mean {}", total / count as f64);
        hf_array_release(&mut array);
        hf_session_close(session);
    }
}
