"""How values cross to another process, and back.

`pickling` and `restoring`
    the pickler and its rules, and the functions that its pickles call;
`context`, `trial`
    for which namespace a value is pickled or read now; a child that tries what may end the process;
`instances`, `enumerations`, `cached_functions`, `module_objects`
    objects whose copies by pickle would be different ones;
`handles`, `device_lease`
    what stands for a descriptor, and for memory of a GPU;
`patches`, `in_place`, `finalizers`
    attributes that the notebook sets on modules; changes of objects that stay; calls when an object dies;
`refused`, `reasons`
    types that stay where they are, and why a value does.

Codecs for the types of libraries stand in holdfast/libraries.
"""
