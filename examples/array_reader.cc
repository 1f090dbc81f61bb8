/* array_reader.cc - the first row of a notebook's matrix of float64, in C++.
 *
 *   c++ -std=c++17 array_reader.cc $(pkg-config --cflags --libs holdfast) -o row
 *   ./row /holdfast-1000-0123456789abcdef x
 */
#include <holdfast/array.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

static void
check(hf_status status, const hf_error &error) {
    if (status != HF_OK)
        throw std::runtime_error(std::string(hf_status_name(status)) + ": " +
                                 error.message);
}

/* Owns what hf_array_of fills. */
class Array {
  public:
    Array(hf_snapshot *snapshot, const std::string &key) {
        hf_error error = HF_ERROR_INIT;
        array_.struct_size = sizeof array_;
        check(hf_array_of(snapshot, key.data(), key.size(), &array_, &error), error);
    }
    ~Array() { hf_array_release(&array_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    const hf_array *
    operator->() const {
        return &array_;
    }

  private:
    hf_array array_{};
};

int
main(int argc, char **argv) try {
    if (argc != 3)
        throw std::runtime_error("usage: row SESSION VARIABLE");
    hf_error error = HF_ERROR_INIT;
    hf_session *opened;
    check(hf_session_open(argv[1], &opened, &error), error);
    std::unique_ptr<hf_session, decltype(&hf_session_close)> session(opened,
                                                                     hf_session_close);
    hf_snapshot *leased;
    check(hf_snapshot_acquire(session.get(), &leased, &error), error);
    std::unique_ptr<hf_snapshot, decltype(&hf_snapshot_release)> snapshot(
        leased, hf_snapshot_release);
    Array array(snapshot.get(), argv[2]);
    if (array->kind != 'f' || array->itemsize != 8 || array->dimensions != 2 ||
        !array->shape[0])
        throw std::runtime_error("not a matrix of float64");
    for (std::int64_t i = 0; i < array->shape[1]; i++) {
        double value;
        std::memcpy(&value, static_cast<char *>(array->data) + i * array->strides[1],
                    sizeof value);
        std::cout << value << (i + 1 < array->shape[1] ? ' ' : '\n');
    }
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
