"""How values cross to another process, and back.

`pickling` and `restoring`
    the pickler and its rules, and the functions that its pickles call;
`context`, `trial`
    for whom a value is pickled or read now; trying in a child what may end the process;
`instances`, `enumerations`, `cached_functions`, `module_objects`
    objects that pickle would make another one of;
`handles`, `device_lease`
    what stands for a descriptor, and for memory of a GPU;
`patches`, `in_place`, `finalizers`
    attributes that the notebook sets on modules; changes to objects that stay; what runs when an object dies;
`refused`, `reasons`
    types that stay where they are, and why a value does.

Codecs for the types of libraries stand in holdfast/libraries.
"""
