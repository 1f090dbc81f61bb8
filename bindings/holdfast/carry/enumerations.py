"""Enumerations of the notebook: the class by value, with all of its names and members.

The metaclass of an enumeration makes members from the class statement. For that it calls the class's own
`__new__` and `__init__`. Here no code of the notebook runs. Each member is made from its value and its
content, which for an `IntEnum` is the int. Its attributes are filled in afterwards.
"""

from __future__ import annotations

import contextlib
import types
import typing as t

from cloudpickle import cloudpickle as _rules

from holdfast.carry import restoring

# Attributes that the metaclass makes anew.
_MADE = frozenset(
    "_member_names_ _member_map_ _member_type_ _value2member_map_ _unhashable_values_"
    " _unhashable_values_map_ _hashable_values_".split()
)
_OF_A_MEMBER = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_"))
_WHOLE = slice(None)
# The parts of an instance, by its type, even if a subclass has replaced the methods.
_CONTENTS: dict[type, t.Callable[[t.Any], tuple[t.Any, ...]]] = {
    object: lambda member: (),
    int: lambda member: (int.__index__(member),),
    float: lambda member: (float.__float__(member),),
    str: lambda member: (str.__str__(member),),
    bytes: lambda member: (bytes.__getitem__(member, _WHOLE),),
    tuple: lambda member: (tuple.__getitem__(member, _WHOLE),),
}


def _content_of(base: t.Any, member: t.Any) -> tuple[t.Any, ...]:
    """The arguments for `__new__` of the built-in base, which make a member with the same
    content."""
    if base in _CONTENTS:
        return _CONTENTS[base](member)
    reduced = base.__reduce__(member)
    if reduced[0] is not type(member) or reduced[2:] not in ((), (None,)):
        raise TypeError(f"members of an enumeration that are {base.__name__}s")
    return reduced[1]


def _attributes_of(member: t.Any) -> tuple[dict[str, t.Any], list[t.Any]]:
    """The attributes that the metaclass doesn't make, and the slots, each with its class and
    name."""
    slots = [
        (base, name, slot.__get__(member))
        for base in type(member).__mro__
        for name, slot in vars(base).items()
        if isinstance(slot, types.MemberDescriptorType) and hasattr(member, name)
    ]
    return {key: item for key, item in vars(member).items() if key not in _OF_A_MEMBER}, slots


def reduce_class(cls: t.Any, attributes: dict[str, t.Any], slots: dict[str, t.Any]) -> t.Any:
    """How an enumeration is pickled by value. The first two items are cloudpickle's."""
    members = cls.__members__
    base = next(one for one in cls._member_type_.__mro__ if not one.__flags__ & restoring.HEAP_TYPE)
    for name in (*_MADE, *members):
        attributes.pop(name, None)
    if getattr(vars(cls).get("_generate_next_value_"), "__module__", "") != "__main__":
        attributes.pop("_generate_next_value_", None)
    made = [(name, one.value, _content_of(base, one)) for name, one in members.items()]
    extra = {name: _attributes_of(one) for name, one in members.items()}
    about = cls.__name__, cls.__qualname__, cls.__module__, tuple(vars(cls))
    args = type(cls), cls.__bases__, about, base, made, _rules._get_or_create_tracker_id(cls)
    values = {name: one.value for name, one in members.items()}
    state = attributes, slots, extra, _combined(cls, base), list(cls._value2member_map_), values
    return _make_class, args, state, None, None, _fill_class


def _combined(cls: t.Any, base: t.Any) -> list[tuple[t.Any, ...]]:
    """The flags without a name that the class has made by now (`~P.R`). Each has the value that
    leads to it, its own value, its name, content, attributes and slots."""
    known = {id(member) for member in cls.__members__.values()}
    return [
        (key, one._value_, one._name_, _content_of(base, one), *_attributes_of(one))
        for key, one in cls._value2member_map_.items()
        if id(one) not in known and type(one) is cls
    ]


# ---- what a pickle calls when it is read ----------------------------------------------------


class _Raw:
    """Holds a member's value and content. The metaclass would take a tuple apart."""

    def __init__(self, value: t.Any, content: t.Any):
        self.value, self.content = value, content


def _member_maker(base: type) -> t.Callable[..., t.Any]:
    def make(cls, *args):
        raw = args[0]
        while type(raw) is tuple:  # the metaclass wraps it for a base that is a tuple
            raw = raw[0]
        member = base.__new__(cls, *raw.content)
        member._value_ = raw.value
        return member

    return make


def _make_class(metaclass, bases, about, base, members, identifier):
    cls = _rules._DYNAMIC_CLASS_TRACKER_BY_ID.get(identifier)
    if cls is not None:
        return cls
    name, qualname, module, own = about
    maker = restoring.imported_base(metaclass)
    with restoring.quiet_bases(bases):
        body = maker.__prepare__(name, bases)
        body["__new__"], body["__init__"] = _member_maker(base), lambda *_: None
        for member, value, content in members:
            body[member] = _Raw(value, content)
        cls = maker.__new__(metaclass, name, bases, body)
    cls.__module__, cls.__qualname__ = module, qualname
    for extra in vars(cls).keys() - set(own):
        with contextlib.suppress(AttributeError):  # a class always has some of them
            type.__delattr__(cls, extra)
    return _rules._lookup_class_or_track(identifier, cls)


def _fill_class(cls, state):
    attributes, slots, extra, combined, order, values = state
    for name, value in values.items():  # a class that was here before may have others
        cls._member_map_[name]._value_ = value
    for name, (items, slots_of) in extra.items():
        _fill_member(cls._member_map_[name], items, slots_of)
    for key, value, name, content, items, slots_of in combined:
        known = cls._value2member_map_
        member = known.get(key, known.get(value))
        if member is None:
            base = next(
                one for one in cls._member_type_.__mro__ if not one.__flags__ & restoring.HEAP_TYPE
            )
            member = base.__new__(cls, *content)
            member._value_, member._name_ = value, name
        _fill_member(member, items, slots_of)
        cls._value2member_map_[key] = member
    made = cls._value2member_map_
    ordered = {key: made[key] for key in order if key in made}
    ordered |= made
    made.clear()
    made.update(ordered)
    return restoring.fill_class(cls, (attributes, slots))


def _fill_member(member, items, slots):
    for name in vars(member).keys() - items.keys() - _OF_A_MEMBER:
        del vars(member)[name]
    vars(member).update(items)
    for base, slot, item in slots:
        vars(base)[slot].__set__(member, item)
