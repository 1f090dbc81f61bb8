"""Uses the store, the recorder and the report as a program may: `mypy --strict` accepts it (test_stubs.py).

It is read, not run.
"""

from pathlib import Path

import holdfast
import holdfast.scorep as scorep
from holdfast import store
from holdfast.report.running import CellCost, run_notebook
from holdfast.scorep import user
from holdfast.store import Session


def keep(values: list[int]) -> str:
    with Session.create(label="typed") as session:
        session["values"] = values
        generation: int = session.commit()
        name: str = session.name
        print(generation, len(session), list(session), "values" in session)
        del session["values"]
    with Session.open(name) as other:
        got = other["values"]
        print(got)
        other.destroy()
    for row in store.sessions():
        print(row["name"], row["generation"])
    return name


@user.region()
def work(count: int) -> int:
    with user.region("inner"):
        user.parameter_int("count", count)
        return sum(range(count))


@user.region("named")
def named() -> None: ...


def record(place: Path) -> int:
    archive: str = scorep.open(place, c_calls=True)
    scorep.register()
    scorep.user_region_begin("a")
    total: int = work(3)
    scorep.user_region_end("a")
    scorep.unregister()
    print(archive, scorep.close())
    return total


def marshal() -> bytes:
    data: bytes = holdfast.dumps({"a": 1})
    print(holdfast.loads(data), holdfast.get_include(), holdfast.__version__)
    return data


def failing() -> None:
    try:
        keep([1])
    except store.NotFoundError as error:
        print(error)


def report(notebook: Path) -> float:
    costs: list[CellCost] = run_notebook(notebook, notebook.with_suffix(".out.ipynb"))
    return sum(cost.ms for cost in costs)
