"""PyTorch's values through the store: what they are, what they share, what is copied."""

import json
import warnings

from needed import a_gpu_is_needed, needed
from store_process import hand_over

torch = needed("torch")

SIZE = 1 << 20  # elements of the large tensors: 4 MiB of float32
MIB4 = 4 * SIZE
LIBRARIES = ("torch", "torch._dynamo")
IMPORTS = "import torch"


MAKERS = {
    "ones": "torch.ones(7)",
    "empty": "torch.empty(0, 3)",
    "scalar": "torch.tensor(3.5, dtype=torch.float64)",
    "transposed": "torch.arange(12.).reshape(3, 4).T",
    "expanded": "torch.arange(3.).expand(4, 3)",
    "strided": "torch.arange(100)[5:80:7]",
    "flipped": "torch.arange(10).as_strided((3, 3), (1, 2), 2)",
    "bool": "torch.tensor([True, False])",
    "bfloat16": "torch.arange(5, dtype=torch.bfloat16)",
    "half": "torch.arange(5, dtype=torch.float16)",
    "float8": "torch.arange(5.).to(torch.float8_e4m3fn)",
    "uint16": "torch.arange(5).to(torch.uint16)",
    "complex": "torch.tensor([1 + 2j, 3 - 4j])",
    "conjugate": "torch.tensor([1 + 2j, 3 - 4j]).conj()",
    "negative": "torch.tensor([1 + 2j, 3 - 4j]).conj().imag",
    "coo": "torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3., 4., 5.], (2, 3))",
    "coalesced": "torch.eye(3).to_sparse()",
    "csr": "torch.eye(3).to_sparse_csr()",
    "csc": "torch.eye(4).to_sparse_csc()",
    "bsr": "torch.eye(4).to_sparse_bsr((2, 2))",
    "meta": "torch.empty(3, 4, device='meta')",
    "quantized": "torch.quantize_per_tensor(torch.arange(4.), 0.5, 1, torch.qint8)",
    "parameter": "torch.nn.Parameter(torch.ones(3))",
    "buffer": "torch.nn.Buffer(torch.ones(3), persistent=False)",
    "typed": "torch.ones(3).storage()",
    "untyped": "torch.arange(3).untyped_storage()",
    "large": f"torch.arange({SIZE})",
}
DESCRIBE = """
def describe(x):
    if not isinstance(x, torch.Tensor):
        return [type(x).__name__, x.tolist()]
    dense = x.detach()
    if x.device.type == 'meta':
        values = None
    elif x.is_quantized:
        values = [x.int_repr().tolist(), x.q_scale(), x.q_zero_point()]
    else:
        dense = dense.to_dense() if x.layout != torch.strided else dense
        values = dense.to(torch.complex128).resolve_conj().resolve_neg()
        values = repr(values.sum().item()), repr(values.flatten()[:50].tolist())
    stride = list(x.stride()) if x.layout == torch.strided else None
    return [type(x).__name__, str(x.dtype), str(x.layout), list(x.shape), stride,
            x.requires_grad, x.is_conj(), x.is_neg(), sorted(x.__dict__),
            x.is_sparse and x.is_coalesced(), values]
"""


def test_every_dtype_and_layout_is_what_it_was(library_main, recwarn):
    main = library_main
    names = {name: f"v_{name}" for name in MAKERS}
    main.execute("\n".join(f"v_{name} = {source}" for name, source in MAKERS.items()))
    main.execute("import torch")
    local = {"torch": torch}
    exec(DESCRIBE, local)
    report = main.commit()
    assert not report["unserializable"]
    described = main.other(
        "import torch\nreport = names.bind(ns)\nassert not report['absent'], report\n"
        + DESCRIBE
        + f"answer(**{{name: describe(ns[v]) for name, v in {names!r}.items()}})"
    )
    expected = {name: local["describe"](main.ns[v]) for name, v in names.items()}
    for name in MAKERS:
        assert repr(described[name]) == repr(_plain(expected[name])), name


def _plain(value):
    return json.loads(json.dumps(value))


def test_a_tensor_is_mapped_and_only_changed_pages_are_written(library_main):
    library_main.execute(f"x = torch.zeros({SIZE})")
    library_main.commit()
    done = hand_over(library_main, "x[5000] = 7")
    assert done["mapped"] == MIB4
    assert done["copied"] < 3 * 4096
    assert library_main.ns["x"][5000] == 7
    # Nothing changed: nothing is written at all.
    assert hand_over(library_main, "value = x.sum().item()")["saved"] == ["value"]
    assert hand_over(library_main, "x.sum()")["saved"] == []


def test_a_tensor_by_itself_is_made_in_one_call(library_main):
    """Of what has offset or shape, the second puts it in its place; others have more calls."""
    library_main.execute(f"x = torch.arange({SIZE})\ny = torch.ones(8, 9)[2:]\nz = [torch.ones(3)]")
    library_main.commit()
    calls = library_main.other("""
import sys, torch
made = {}
def look(frame, event, called):
    if event == "c_call" and type(getattr(called, "__self__", None)).__module__ != "_pickle":
        calls.append(called.__name__)
for name in "xyz":
    calls = []
    sys.setprofile(look)
    names.bind(ns, names=[name])
    sys.setprofile(None)
    made[name] = [call for call in calls if call in ("frombuffer", "empty", "set_")]
assert ns["y"].shape == (6, 9) and ns["y"].storage_offset() == 18 and ns["y"]._base is None
answer(**made)
""")
    assert calls == {
        "x": ["frombuffer"],
        "y": ["frombuffer", "set_"],
        "z": ["frombuffer", "empty", "set_"],
    }


def test_what_shares_a_storage_shares_it_again(library_main):
    main = library_main
    main.execute(
        f"x = torch.zeros(1024, {SIZE // 1024})\nrow = x[3]\nturned = x.T\n"
        "nested = {'deep': [x[:, 5]]}\nother = torch.zeros(8)\nsmall = other[2:]"
    )
    main.commit()
    for value in (1.0, 2.0, 3.0):
        hand_over(main, f"x[3, 5] = {value}\nsmall[0] = {value}")
        ns = main.ns
        assert [ns["row"][5], ns["turned"][5, 3], ns["nested"]["deep"][0][3]] == [value] * 3
        assert ns["other"][2] == value
        assert ns["row"].untyped_storage().data_ptr() == ns["x"].data_ptr()
    main.ns["row"][5] = 9
    main.commit()
    assert hand_over(main, "value = [x[3, 5].item(), turned[5, 3].item()]")["value"] == [9, 9]


def test_arrays_and_tensors_of_one_memory(library_main):
    main = library_main
    main.execute(
        "import numpy as np\na = np.zeros(100_000)\nt = torch.from_numpy(a)\n"
        "u = torch.zeros(100_000)\nb = u[7:].numpy()\nw = u[50:]"
        "\ns = torch.from_numpy(a)[3:]"
    )
    main.commit()
    for value in (1.0, 2.0):
        hand_over(main, f"a[5] = {value}\nb[0] = {value}\nw[0] = {value}")
        ns = main.ns
        assert ns["t"][5] == ns["s"][2] == value and ns["u"][7] == value and ns["u"][50] == value
        assert ns["b"][43] == value


def test_a_small_array_and_its_tensor_stay_of_one_memory(library_main):
    """Below a page their memory is a bytearray of the pickle's, which both look at afterwards."""
    main = library_main
    main.execute("t = torch.arange(6.0)\nn = t.numpy()\nm = n[2:]\nv = t.view(2, 3)")
    main.commit()
    for value in (1.0, 2.0, 3.0):
        hand_over(main, f"n[5] = {value}\nv[0, 2] = {value}")
        ns = main.ns
        assert ns["t"][5] == ns["v"][1, 2] == ns["m"][3] == ns["t"][2] == ns["n"][2] == value


def test_aliases_are_one_object(library_main):
    library_main.execute("x = torch.zeros(3)\ny = x\nz = [x]")
    library_main.commit()
    hand_over(library_main, "assert x is y and z[0] is x\nx[0] = 1")
    ns = library_main.ns
    assert ns["x"] is ns["y"] is ns["z"][0] and ns["z"][0][0] == 1


def test_gradients_hooks_and_attributes(library_main):
    main = library_main
    main.execute(
        "x = torch.ones(3, requires_grad=True)\n(x * 2).sum().backward()\n"
        "x.note = 'mine'\nlog = []\nhandle = x.register_hook(lambda g: log.append(1) or g * 10)\n"
        "w = torch.nn.Parameter(torch.ones(2))\nw.grad = torch.full((2,), 4.0)\ng = w.grad"
    )
    main.commit()
    done = hand_over(
        main,
        "assert x.grad.tolist() == [2, 2, 2] and w.grad is g and x.note == 'mine'\n"
        "(x * 3).sum().backward()\ng[0] = 5\nhandle.remove()\n(x * 1).sum().backward()\n"
        "value = [x.grad.tolist(), len(log), w.grad[0].item()]",
    )
    assert done["value"] == [[33, 33, 33], 1, 5]
    assert main.ns["x"].grad.tolist() == [33, 33, 33]
    assert main.ns["w"].grad is main.ns["g"] and main.ns["g"][0] == 5


def test_what_was_computed_keeps_its_value_and_says_that_its_graph_stayed(library_main):
    library_main.execute(
        "x = torch.ones(3, requires_grad=True)\ny = x * 2\ny.retain_grad()\ny.sum().backward(retain_graph=True)\n"
        "z = y * 2"
    )
    library_main.commit()
    done = hand_over(
        library_main,
        "assert y.requires_grad and not y.is_leaf and z.tolist() == [4, 4, 4]\n"
        "assert y.grad.tolist() == [1, 1, 1]\n"
        "z.add_(1)\n"
        "try:\n    z.sum().backward()\nexcept RuntimeError as error:\n    value = str(error)",
    )
    assert "graph" in done["value"] and "same cell" in done["value"]
    assert library_main.ns["z"].tolist() == [5, 5, 5]
    library_main.ns["y"].sum().backward()  # y was not changed: it has its graph still


TRAINING = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 300)
        self.norm = torch.nn.BatchNorm1d(300)
        self.last = torch.nn.Linear(300, 1)
        self.tied = self.first.weight
    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))
generator = torch.Generator().manual_seed(7)
data = torch.randn(64, 20, generator=generator)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
"""
STEP = """
optimizer.zero_grad()
loss = net(data + torch.randn(64, 20, generator=generator)).square().mean()
loss.backward()
optimizer.step()
schedule.step()
value = loss.item()
"""


def test_training_goes_on_as_in_one_process(library_main):
    main = library_main
    torch.manual_seed(3)
    main.execute(TRAINING)
    main.ns["Net"].__module__ = "__main__"
    alone = {"torch": torch}
    torch.manual_seed(3)
    exec(TRAINING, alone)
    for turn in range(6):
        exec(STEP, alone)
        if turn % 2:
            main.commit()
            assert hand_over(main, STEP)["value"] == alone["value"]
        else:
            main.execute(STEP)
        assert main.ns["value"] == alone["value"]
    net, optimizer = main.ns["net"], main.ns["optimizer"]
    assert net.tied is net.first.weight
    assert optimizer.param_groups[0]["params"][0] is net.first.weight
    assert net.first.weight in optimizer.state
    assert main.ns["schedule"].optimizer is optimizer


WATCHED = """
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
seen, looked = [], None
hook = optimizer.register_step_post_hook(lambda *arguments: seen.append(1))
"""
WATCHED_STEP = "net(torch.ones(4)).sum().backward(); optimizer.step(); schedule.step()"


def test_an_optimizers_hooks_and_scheduler_go_along(library_main):
    main = library_main
    main.execute(WATCHED)
    assert main.commit()["unserializable"] == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the scheduler's, of a step that it didn't see
        hand_over(
            main,
            "import warnings; warnings.simplefilter('error')\n"
            + WATCHED_STEP
            + "\nlooked = len(seen)",
        )
        assert main.ns["looked"] == 1
        main.execute(WATCHED_STEP + "\nlooked = len(seen)")
    assert main.ns["looked"] == 2 and main.ns["schedule"].optimizer is main.ns["optimizer"]
    assert main.ns["optimizer"].param_groups[0]["lr"] == 0.05
    hand_over(main, "hook.remove()\n" + WATCHED_STEP)
    main.execute(WATCHED_STEP + "\nlooked = len(seen)")
    assert main.ns["looked"] == 2


OWN_PICKLING = """
class Own(torch.optim.SGD):
    def __getstate__(self): return {**super().__getstate__(), "kept": 1}
own = Own([torch.zeros(3, requires_grad=True)], lr=0.1); own.dropped = 2
"""


def test_an_optimizers_own_pickling_is_asked(library_main):
    main = library_main
    main.execute(OWN_PICKLING)
    main.ns["Own"].__module__ = "__main__"
    main.commit()
    hand_over(main, "looked = own.kept, hasattr(own, 'dropped')")
    assert main.ns["looked"] == (1, False)


def test_subclasses_and_small_types(library_main):
    main = library_main
    main.execute(
        "class Named(torch.Tensor):\n    pass\n"
        "x = torch.ones(4).as_subclass(Named)\nx.label = 'n'\n"
        "kinds = [torch.float16, torch.device('cpu'), torch.Size([2, 3]), torch.strided,\n"
        "         torch.channels_last, torch.per_tensor_affine]"
    )
    main.ns["Named"].__module__ = "__main__"
    main.commit()
    hand_over(main, "assert type(x) is Named and x.label == 'n' and (x + 1).sum() == 8\nx[0] = 5")
    assert type(main.ns["x"]) is main.ns["Named"] and main.ns["x"][0] == 5
    expected = [torch.float16, torch.device("cpu"), torch.Size([2, 3]), torch.strided]
    assert main.ns["kinds"][:4] == expected


def test_a_restored_storage_is_replaced_but_does_not_grow(library_main):
    library_main.execute(f"x = torch.zeros({SIZE})\ny = x[:5]")
    library_main.commit()
    done = hand_over(
        library_main,
        "x.resize_(100)\nx.data = torch.ones(3)\n"
        "try:\n    y.resize_(10 ** 7)\nexcept RuntimeError as error:\n    value = str(error)",
    )
    assert "resiz" in done["value"]
    assert library_main.ns["x"].tolist() == [1, 1, 1]


def test_storages_are_made_on_a_device():
    from holdfast.libraries.torch.devices import _make_on_device

    host = torch.arange(100).untyped_storage()
    made = _make_on_device(host, "cpu")
    assert made.tolist() == host.tolist() and made.data_ptr() != host.data_ptr()


def test_tensors_on_a_gpu(library_main):
    a_gpu_is_needed()
    main = library_main
    main.execute(
        "x = torch.arange(1000., device='cuda')\nrow = x[10:20]\nw = torch.nn.Linear(3, 3).cuda()"
    )
    main.commit()
    hand_over(main, "assert x.is_cuda and row.is_cuda\nx[10] = 7\nw.weight.data.fill_(2)")
    ns = main.ns
    assert ns["row"].is_cuda and ns["row"][0] == 7
    assert ns["row"].untyped_storage().data_ptr() == ns["x"].untyped_storage().data_ptr()
    assert ns["w"].weight.is_cuda and ns["w"].weight.sum() == 18


def test_what_can_t_be_carried_is_declined_alone(library_main):
    library_main.execute(
        "good = torch.ones(3)\nbad = {'inner': torch.ones(2)}\nbad['inner'].lock = __import__('threading').Lock()"
    )
    report = library_main.commit()
    assert "good" in report["saved"]
    assert set(report["unserializable"]) == {"bad"}
    assert "lock" in report["unserializable"]["bad"]


def test_what_follows_pytorch_s_calls_sees_none_of_ours(main):
    main.execute(
        "import torch\nfrom torch.overrides import TorchFunctionMode\ncalls = []\n"
        "class Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, function, types, args=(), kwargs=None):\n"
        "        calls.append(function.__name__)\n        return function(*args, **(kwargs or {}))\n"
        "class Own(torch.Tensor):\n"
        "    @classmethod\n    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
        "        calls.append(function.__name__)\n"
        "        return super().__torch_function__(function, types, args, kwargs or {})\n"
        "x, own = torch.arange(9000.0), torch.ones(3).as_subclass(Own)\ncalls.clear()\n"
        "mode = Mode(); mode.__enter__()"
    )
    try:
        report = main.commit()
        assert main.ns["calls"] == []
    finally:
        main.execute("mode.__exit__(None, None, None)")
    assert not report["unserializable"]
    assert main.other("names.bind(ns); answer(found=[len(ns['x']), ns['calls']])")["found"] == [
        9000,
        [],
    ]
