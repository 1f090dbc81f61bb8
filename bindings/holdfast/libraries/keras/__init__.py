"""Keras: defaults, the numbers in the names of layers, and the notebook's own classes."""

from holdfast.libraries import Registry

DECLARATIONS = (
    Registry(
        "defaults",
        "keras.src.backend.config",
        "",
        ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT"),
    ),
    Registry(
        "names",
        "keras.src.backend.common.global_state",
        "GLOBAL_STATE_TRACKER",
        ("object_name_uids", "dtype_policy"),
    ),
    Registry(
        "classes",
        "keras.src.saving.object_registration",
        "",
        ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES"),
        fixed=True,
        after="keras",
    ),
)
