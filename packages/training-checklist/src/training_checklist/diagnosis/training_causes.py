"""Why training stops: gradients, memory, loader workers, monitors, checkpoints, and processes that wait for others."""

import dis
import inspect
import platform
import re
import sys
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch.utils.data import DataLoader, Sampler
from training_config.near_names import suggestion
from training_config.targets import parameters_of

from training_checklist.diagnosis.cause import Cause, Pattern
from training_checklist.diagnosis.config_place import keys_named, leaves, place_of, raw_leaves
from training_checklist.diagnosis.crash import TENSORS, Crash, assigned, flat_items, is_a
from training_checklist.direction import COUNTED, turned
from training_checklist.ending import launched_rank
from training_checklist.engines.overwritten import overwriting_line
from training_checklist.engines.own_code import is_own, is_own_class, shorten
from training_checklist.engines.parameter_names import shown
from training_checklist.engines.places import of_function
from training_checklist.finding import NOWHERE, Fix, Place
from training_checklist.lightning import Callback, LightningDataModule, LightningModule

PREFIXES = ("module.", "_orig_mod.", "_forward_module.", "model.", "net.", "backbone.")
NAMES_SHOWN = 4
WORKER_ENDED = re.compile(r"DataLoader worker \(pid.*(?:killed by signal|exited unexpectedly)")
GRAPH_NODES = 100_000  # beyond that the graph is not searched


def hook(crash: Crash, name: str) -> Place | None:
    """Return where a hook of the LightningModule is, or None where that is not known."""
    function = getattr(crash.root, name, None)
    if function is None:
        return None
    code = inspect.unwrap(function).__code__
    called = f"{type(crash.root).__name__}.{name}"
    return Place(file=shorten(code.co_filename), line=code.co_firstlineno, function=called)


def several_optimizers(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "it is written for Lightning 1, which called training_step once for each optimizer",
        "self.automatic_optimization = False in __init__; in training_step one, two = self.optimizers(), and for each "
        "zero_grad(), self.manual_backward(loss) and step()",
        hook(crash, "training_step"),
    )


def plateau_without_monitor(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "ReduceLROnPlateau lowers the learning rate when a metric stands still, and has to be told which",
        'return {"optimizer": ..., "lr_scheduler": {"scheduler": ..., "monitor": "val/loss"}} there',
        hook(crash, "configure_optimizers"),
    )


def exit_called(crash: Crash, match: re.Match) -> Cause | None:
    if isinstance(crash.error.__context__, Exception):  # a program that ends by what it has caught: that is the cause
        return None
    return Cause("exit() ends Python itself, in the middle of training", "remove the call, or raise an exception there")


def no_loss_key(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "training_step returns a dictionary in which Lightning finds no loss to follow",
        'return the loss itself, or {"loss": loss, ...}',
        hook(crash, "training_step"),
    )


def closure_not_called(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "Lightning runs training_step and backward in the closure that it gives this hook, and the hook does not",
        "optimizer.step(closure=optimizer_closure)",
        hook(crash, "optimizer_step"),
    )


def hook_arguments(crash: Crash, match: re.Match) -> Cause | None:
    """Of a hook that takes other arguments than Lightning gives it, as in its first versions it did."""
    called = crash.local("fn", MethodType)
    if called is None or called.__name__ != match[1]:
        return None
    bases = LightningModule, LightningDataModule, Callback
    function = next((getattr(each, match[1], None) for each in bases if isinstance(called.__self__, each)), None)
    if function is None:
        return None
    given = inspect.signature(function).parameters.values()
    header = f"{match[1]}({', '.join(str(each.replace(annotation=each.empty)) for each in given)})"
    return Cause(f"Lightning calls it as {header}", f"def {header}", of_function(called.__func__))


def no_dataset(crash: Crash, match: re.Match) -> Cause | None:
    """Of a DataLoader that was made of None: Lightning asks for its length, where no line is the project's."""
    found = [each.dataset for each in crash.everything(DataLoader)]
    found += [each.data_source for each in crash.everything(Sampler) if hasattr(each, "data_source")]
    if all(dataset is not None for dataset in found):
        return None
    source = getattr(crash.trainer, "datamodule", None) or crash.root
    function = getattr(type(source), "setup", None)
    return Cause(
        "a DataLoader is made of None: setup() has not made its dataset in this stage, which is fit, validate, test or "
        "predict",
        "make the datasets of the stage in setup(stage), and all of them for None",
        None if function is None else of_function(function),
    )


def not_a_scalar(crash: Crash, match: re.Match) -> Cause:
    loss = loss_of(crash)
    shape = f" of shape {tuple(loss.shape)}" if loss is not None else ""
    return Cause(
        f"the loss{shape} is one value a sample, and backward needs a single one",
        "loss.mean(), or reduction='mean' in the criterion",
        backward_of(crash),
    )


def detached(crash: Crash, match: re.Match) -> Cause:
    parameters = list(crash.root.parameters()) if crash.root is not None else []
    frozen = sum(not parameter.requires_grad for parameter in parameters)
    if parameters and frozen == len(parameters):
        return Cause(
            f"all {frozen} parameters are frozen (requires_grad=False), so the loss depends on nothing to train",
            "requires_grad_(True) on what is to be trained",
            backward_of(crash),
        )
    evaluates = not {"validation_step", "test_step", "predict_step"}.isdisjoint(crash.stages)
    if evaluates and "training_step" not in crash.stages:
        return Cause(
            "a gradient is taken where none is recorded: Lightning validates, tests and predicts in inference mode",
            "torch.inference_mode(False) and torch.enable_grad() around what takes it and makes its tensors, or "
            "Trainer(inference_mode=False) and torch.enable_grad(), as for forces that are slopes of an energy",
        )
    known = f"; {frozen} of {len(parameters)} parameters are frozen" if frozen else ""
    return Cause(
        f"the loss has lost its graph on the way from the parameters: .detach(), .item(), .data, .numpy(), "
        f"torch.tensor(loss), torch.no_grad() or argmax{known}",
        Fix("look for these in training_step and forward", items=("gradients",)),
        backward_of(crash),
    )


def modified_in_place(crash: Crash, match: re.Match) -> Cause:
    shape, operation = match.groups()
    line = overwriting_line(crash.root, shape) if isinstance(crash.root, LightningModule) else NOWHERE
    named = list(crash.root.named_modules()) if crash.root is not None and not line.line else []
    inplace = [name for name, module in named if getattr(module, "inplace", False) is True]
    suspects = f"; modules with inplace=True: {shown(inplace)}" if inplace else ""
    return Cause(
        f"backward needs the ({shape}) output of {operation}, which was overwritten after it was computed{suspects}",
        Fix("x = x + y for x += y, torch.where for x[mask] = y, relu(x) for relu_(x)", items=("anomaly",)),
        line if line.line else backward_of(crash),
    )


def leaf_modified(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "a parameter, or another tensor that is trained, is changed in place while gradients are recorded",
        "with torch.no_grad(): around a deliberate change, as in initialisation; x = x + y for x += y",
    )


def view_modified(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"one of the parts that {match[1]} has made is changed in place, which its gradient cannot express",
        "x = x + y for x += y in that line, or .clone() the part first",
    )


def made_in_inference_mode(crash: Crash, match: re.Match) -> Cause:
    name, _, maker = given(crash, lambda value: is_a(value, TENSORS) and value.is_inference())
    return Cause(
        f"{name} was made under torch.inference_mode(), and autograd may not use such a tensor later",
        "torch.no_grad() where it is made, or x.clone() of it outside of inference mode",
        maker,
    )


def size_is_fraction(crash: Crash, match: re.Match) -> Cause | None:
    name, value, maker = given(crash, lambda value: isinstance(value, float))
    if not name:
        return None
    return Cause(
        f"{name} is {value:.6g}, and what counts samples or steps has to be an integer",
        "round where it is made: int(share * total), and for the last part the total less the others' sizes",
        maker,
    )


def given(crash: Crash, is_such: Callable[[Any], bool]) -> tuple[str, Any, Place | None]:
    """Return the value of some kind that the project's own line has at hand, its name, and the function that made it.

    Where no local variable is such, the name is empty; where none of the project's own functions made it, the place is
    the traceback's.
    """
    if crash.own is None:
        return "", None, None
    for name, value in flat_items(crash.own.frame.f_locals):
        if is_such(value):
            called = re.match(r"(self\.)?(\w+)\(", assigned(crash.own, name.partition("[")[0])) or ("", "", "")
            values = crash.own.frame.f_globals
            maker = getattr(type(crash.own.instance), called[2], None) if called[1] else values.get(called[2])
            place = of_function(maker) if callable(maker) else None
            return name, value, place if place is not None and place.line else None
    return "", None, None


def twice(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "this graph has been gone through before: a tensor of an earlier step is part of the loss (a hidden state, "
        "a running value, a list of losses), or there are two calls of backward",
        "detach() what is kept from one step to the next; add losses up and call backward once",
        backward_of(crash),
    )


def nan_in_backward(crash: Crash, match: re.Match) -> Cause:
    function, output = match.groups()
    operation = re.sub(r"Backward\d*$", "", function)
    lines = forward_lines(loss_of(crash), function)
    at = backward_of(crash)
    if len(lines) == 1:
        at = (at or crash.place).beside(**lines[0])
    several = f"; it was called in {len(lines)} lines: {'; '.join(map(said, lines))}" if len(lines) > 1 else ""
    return Cause(
        f"the gradient of {operation} is NaN for its input {output}: a square root, power or division at 0, "
        f"a logarithm of 0, or 0 times infinity behind a torch.where{several}",
        Fix("an epsilon inside of it, or clamp(min=...) before it", items=("overflow",)),
        at,
    )


def loss_of(crash: Crash) -> Any:
    """Return the tensor whose backward was at work, or None."""
    return next((step.instance for step in crash.steps if is_a(step.instance, TENSORS)), crash.argument("tensor"))


def said(line: dict[str, Any]) -> str:
    return str(Place(**line))


def backward_of(crash: Crash) -> Place | None:
    """Return a place for what happens in a backward pass, where no module is at work."""
    below = crash.steps.index(crash.own) if crash.own is not None else -1
    entry = next((index for index, step in enumerate(crash.steps) if step.function == "backward"), -1)
    # No such call: a step of another stage takes gradients itself, as of an energy for the forces.
    if crash.root is None or not hasattr(crash.root, "training_step") or entry < 0 or below > entry:
        return None
    if crash.trainer is not None and not crash.root.automatic_optimization:
        return None
    step = hook(crash, "training_step")
    return None if step is None else step.beside(batch=crash.local("batch_idx", int), note="backward of its loss")


def forward_lines(loss: Any, function: str) -> list[dict[str, Any]]:
    """Return the lines that called a differentiable function, from what anomaly mode has noted in the graph."""
    lines: dict[tuple, dict[str, Any]] = {}
    for node in graph(getattr(loss, "grad_fn", None)):
        if node.name() != function:
            continue
        text = "".join(node.metadata.get("traceback_", []))
        own = [
            found for found in re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)', text) if is_own(found[0])
        ]
        if own:
            file, number, name, source = own[-1]
            lines[file, number] = {"file": shorten(file), "line": int(number), "function": name, "source": source}
    return list(lines.values())


def graph(node: Any) -> Iterator[Any]:
    seen, waiting = set(), [node]
    while waiting and len(seen) < GRAPH_NODES:
        current = waiting.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        yield current
        waiting += [following for following, _ in current.next_functions]


def out_of_memory(crash: Crash, match: re.Match) -> Cause:
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)|tried to allocate (\d+) bytes", str(crash.error))
    size = f" when another {asked[1] or f'{int(asked[2]) / 2**30:.1f} GiB'} was asked for" if asked else ""
    config = raw_leaves(crash.config)
    batch = next((key for key in keys_named(crash.config, "batch_size") if isinstance(config[key], int)), None)
    remedies = ["a smaller batch"]
    if batch is not None and config[batch] > 1:
        half = config[batch] // 2
        remedies = [f"{batch}={half}", f"{batch}={half} trainer.accumulate_grad_batches=2 (the same steps as now)"]
    remedies.append("trainer.precision=bf16-mixed")
    checkpointing = keys_named(crash.config, "checkpoint_stages")
    remedies.append(f"{checkpointing[0]}=[...]" if checkpointing else "activation checkpointing of the largest stages")
    if crash.trainer is not None and any("validat" in stage or "evaluation" in stage for stage in crash.stages):
        remedies.append("no lists of predictions kept over validation")
    return Cause(
        f"memory is full{size}; most of it are activations, which grow with the batch, unless something keeps "
        "the graph of every step",
        Fix(f"in this order: {', '.join(remedies)}", items=("memory",)),
    )


def worker_died(crash: Crash, match: re.Match) -> Cause:
    keys = keys_named(crash.config, "num_workers")
    alone = f"{keys[0]}=0" if keys else "num_workers=0"
    if "us error" in str(crash.error) or "shared memory" in str(crash.error):
        return Cause(
            "loader workers hand batches over in shared memory (/dev/shm), and it is full; containers have 64 MB of it",
            f"docker run --shm-size=8g, or {alone}, fewer workers, or a smaller batch",
            Place(note="a DataLoader worker process"),
        )
    return Cause(
        "a loader worker was ended from outside of Python: mostly by the system because memory ran out "
        "(every worker has its own copy of the dataset), else by a crash in a library's C code",
        f"{alone} runs the same in this process, where it would show; dmesg | tail tells if memory ran out",
        Place(note="a DataLoader worker process"),
    )


def too_many_files(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "each tensor that a worker hands over takes a file handle, and there are no more",
        "ulimit -n 65536 before the command, or torch.multiprocessing.set_sharing_strategy('file_system')",
    )


def not_picklable(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "what is sent to another process (a loader worker that is spawned, ddp_spawn, a job of a sweep) is pickled, "
        "and lambdas, functions inside of functions and open files cannot be",
        "a function or class at the top of a module instead; num_workers=0 tells whether the loader is it",
    )


def empty_dataset(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "the dataset of this DataLoader has no samples",
        "print len(dataset) in setup(): a wrong folder, a filter that lets nothing through, or a split of size 0",
    )


def given_twice(crash: Crash, match: re.Match) -> Cause:
    called, argument = match.groups()
    return Cause(
        f"{called} is given {argument} twice, once by its place and once by its name",
        f"keep {argument}=... and take out the other; name every argument after the first",
    )


def unexpected_argument(crash: Crash, match: re.Match) -> Cause:
    """Of what code calls by itself; what a config builds is told by its key."""
    called, argument = match.groups()
    found = named(called)
    taken = [*(parameters_of(found) or ())] if found is not None else []
    why = f"{called} takes no argument {argument}"
    if found is None or is_own_class(found):
        fix = f"take {argument} out of the call, or have {called} take it"
        return Cause(f"{why}{suggestion(argument, taken)}", fix)
    package = found.__module__.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    return Cause(
        f"{why} in {f'{package} {version}'.strip()}{suggestion(argument, taken)}",
        f"take {argument} out of the call; where this code was written for another {package}, see what took its place",
    )


def named(called: str) -> type | None:
    """Return the class of a name that a module has imported; None where there is none, or another one, too."""
    loaded = [getattr(module, "__dict__", {}).get(called) for module in [*sys.modules.values()]]
    found = {each for each in loaded if inspect.isclass(each) and each.__qualname__ == called}
    return found.pop() if len(found) == 1 else None


def nothing_to_train(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "the optimizer was given no parameters: the model has none yet, or a filter or generator was used up before",
        "self.parameters() in configure_optimizers, after all layers are made in __init__",
    )


def monitor(crash: Crash, match: re.Match) -> Cause:
    name = match[1]
    if crash.trainer is not None:
        logged = [str(key) for key in crash.trainer.callback_metrics]
    else:
        logged = re.findall(r"['`]([\w/.\- ]+)['`]", str(crash.error)[match.end(1) - match.start(0) :])
    logged = [key for key in logged if key not in (*COUNTED, name) and not key.startswith("lr-")]
    values = raw_leaves(crash.config)
    watching = [key for key in values if key.rpartition(".")[2] == "monitor" and resolves_to(crash, key, name)]
    settings = [key for key in watching if values[key] == name]
    holders = [key for key in watching if "." in key] or watching
    near = sorted(logged, key=lambda key: (key.partition("/")[0] != name.partition("/")[0], distance(key, name)))
    keys = dict.fromkeys([*holders, *settings])
    return Cause(
        f"nothing logs {name!r}; logged are {', '.join(logged) or 'no metrics at all'}",
        f"{monitored(values, (settings or ['monitor'])[0], near[0])}, or self.log({name!r}, ...) in the validation step"
        if near
        else f"self.log({name!r}, ...) in the step that computes it",
        place_of(crash.config, *keys),
    )


def monitored(values: dict[str, Any], key: str, name: str) -> str:
    """Return the override that has a callback monitor a metric, with its mode where that is of another kind of one."""
    mode = f"{key.removesuffix('monitor')}mode"
    wanted = turned(values.get(mode), name)
    return f"{key}={name}" + (f" {mode}={wanted}" if wanted else "")


def resolves_to(crash: Crash, key: str, name: str) -> bool:
    try:
        return OmegaConf.select(crash.config, key) == name
    except OmegaConfBaseException:
        return False


def distance(one: str, other: str) -> float:
    return -SequenceMatcher(None, one, other).ratio()


def state_dict_mismatch(crash: Crash, match: re.Match) -> Cause:
    message = str(crash.error)
    missing = re.findall(r'"([^"]+)"', section(message, "Missing key"))
    unexpected = re.findall(r'"([^"]+)"', section(message, "Unexpected key"))
    sizes = re.findall(r"size mismatch for ([\w.]+):.*?Size\(\[(.*?)\]\).*?Size\(\[(.*?)\]\)", message)
    where = Place(parameter=shown([key for key, _, _ in sizes] + missing + unexpected[:NAMES_SHOWN]))
    prefix = next((p for p in PREFIXES if missing and same_without(p, missing, unexpected)), None)
    if prefix is not None:
        source = "torch.compile" if prefix == "_orig_mod." else "DistributedDataParallel" if prefix == "module." else ""
        made = f", which {source} adds" if source else ""
        has, lacks = ("checkpoint", "model") if any(prefix in key for key in unexpected) else ("model", "checkpoint")
        if has == "checkpoint":
            fix = f"state = dict((key.replace({prefix!r}, '', 1), value) for key, value in state.items())"
        else:
            fix = f"load it into the model inside of the wrapper, or before it is wrapped; else {prefix!r} + key"
        return Cause(f"the {has}'s keys have {prefix!r}{made}; the {lacks}'s have not", fix, where)
    facts = [f"{key} is ({old}) in the checkpoint, ({new}) here" for key, old, new in sizes]
    facts += [f"missing in the checkpoint: {shown(missing)}"] if missing else []
    facts += [f"unknown to this model: {shown(unexpected)}"] if unexpected else []
    changed = changed_since(crash)
    fix = "give the overrides with which the checkpoint was made; strict=False leaves missing and unknown keys out"
    if changed:
        facts.append("the config has changed since: " + ", ".join(f"{key} was {old}" for key, old, _ in changed))
        fix = Fix("as when it was saved", overrides=tuple(f"{key}={old}" for key, old, _ in changed[:NAMES_SHOWN]))
    return Cause("; ".join(facts), fix, where)


def section(message: str, title: str) -> str:
    """Return what follows a title in its line."""
    return next((line for line in message.splitlines() if line.strip().startswith(title)), "")


def same_without(prefix: str, first: list[str], second: list[str]) -> bool:
    return sorted(first) != sorted(second) and sorted(key.replace(prefix, "") for key in first) == sorted(
        key.replace(prefix, "") for key in second
    )


def changed_since(crash: Crash) -> list[tuple[str, Any, Any]]:
    """Return (key, old value, new value) of the model's config that differ from the run that wrote the checkpoint."""
    names = ("ckpt_path", "checkpoint_path", "checkpoint", "path")
    given = [step.frame.f_locals.get(name) for step in crash.steps for name in names]
    if crash.config is not None:
        given.append(crash.config.get("ckpt_path"))
    for path in given:
        if not isinstance(path, (str, Path)) or crash.config is None or "model" not in crash.config:
            continue
        records = (folder / ".hydra" / "config.yaml" for folder in Path(path).resolve().parents)
        saved = next((record for record in records if record.is_file()), None)
        if saved is None:
            continue
        old = dict(leaves(OmegaConf.to_container(OmegaConf.load(saved), resolve=False).get("model", {}), "model"))
        new = {key: value for key, value in raw_leaves(crash.config).items() if key.startswith("model.")}
        return [(key, old[key], new[key]) for key in old if key in new and old[key] != new[key]]
    return []


def weights_only(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "the checkpoint holds weights and nothing to continue from: no optimizer, no scheduler, no epoch",
        "save_weights_only=false in the checkpoint callback for the next run; "
        "this one can be loaded into the model, but not resumed",
        place_of(crash.config, *keys_named(crash.config, "ckpt_path")),
    )


def other_optimizer(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "the checkpoint was written with another optimizer, other parameter groups or another number of parameters",
        "give the overrides with which it was made, or start from its weights alone",
        place_of(crash.config, *keys_named(crash.config, "ckpt_path")),
    )


def pickled_objects(crash: Crash, match: re.Match) -> Cause:
    found = re.search(r"GLOBAL (\S+)", str(crash.error))
    what = f"an object of {found[1]}" if found else "more than tensors and plain values"
    return Cause(
        f"the checkpoint holds {what}, and to unpickle that runs code of whoever wrote the file",
        "weights_only=False only for a file of one's own; better, save tensors and plain values alone: "
        "self.save_hyperparameters(ignore=[...])",
        crash.place.beside(note=found[1]) if found else None,
    )


def step_missing(crash: Crash, match: re.Match) -> Cause:
    step, called = match.groups()
    return Cause(
        f"{type(crash.root).__name__} has no {step}, and the script calls trainer.{called}",
        f"write {step}, which may call what validation_step calls, or take trainer.{called} out",
    )


def made_by_another_rank(crash: Crash, match: re.Match) -> Cause | None:
    if launched_rank() == 0:
        return None
    return Cause(
        "every rank runs this line, and another one has made it first",
        "os.makedirs(..., exist_ok=True), Path.mkdir(exist_ok=True), or make it on rank 0 alone: rank_zero_only",
    )


def peer_gone(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "another process of this job has ended or failed first, and this one waited for it: its error is the cause, "
        "or it ran fewer steps (a skipped batch, a loader of another length, a return in one rank only)",
        Fix("look for the first traceback of another rank; none there: the item compares them", items=("distributed",)),
        crash.place if crash.trainer is None else crash.place.beside(rank=str(crash.trainer.global_rank)),
    )


def ranks_built_apart(crash: Crash, match: re.Match) -> Cause:
    function = getattr(type(getattr(crash.trainer, "datamodule", None) or crash.root), "prepare_data", None)
    own = function is not None and is_own(inspect.unwrap(function).__code__.co_filename)
    return Cause(
        f"this rank has made another network than rank 0, with a parameter of {match[1]}: what it is made of is set on "
        "one rank alone, as by prepare_data, which rank 0 alone runs",
        "set it in setup(), which every rank runs, after prepare_data",
        of_function(function) if own else None,
    )


def prepared_on_one_rank(crash: Crash, match: re.Match) -> Cause | None:
    """Of a line that reads what prepare_data has set, on a rank that did not run it."""
    for step in crash.steps if launched_rank() > 0 else ():
        function = inspect.unwrap(getattr(type(step.instance), "prepare_data", len))
        if step.is_own and inspect.isfunction(function) and is_own(function.__code__.co_filename):
            made = {each.argval for each in dis.get_instructions(function) if each.opname == "STORE_ATTR"}
            if read := [name for name in sorted(made) if re.search(rf"\bself\.{name}\b", step.source)]:
                return Cause(
                    f"prepare_data sets self.{read[0]}, and Lightning calls that on rank 0 alone: no other rank has it",
                    "download and write files in prepare_data; set attributes in setup(), which every rank runs",
                    of_function(function),
                )
    return None


def timed_out(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "the processes did not all arrive at the same collective operation in time: one died, one runs other code "
        "(an if on the rank, an uneven loader), or the network between them is blocked",
        Fix(
            "the item names rank and stage; NCCL_SOCKET_IFNAME=<interface> where a machine has several networks",
            items=("distributed",),
        ),
    )


def sparse_buffers(crash: Crash, match: re.Match) -> Cause:
    sparse = [name for name, each in crash.root.named_buffers() if each.layout != torch.strided] if crash.root else []
    return Cause(
        "DDP sends the buffers of rank 0 to the other ranks, and can send no sparse ones",
        "register its indices and its values as buffers, and make the sparse tensor of them where it is used",
        Place(parameter=shown(sparse)) if sparse else None,
    )


def batches_not_shared(crash: Crash, match: re.Match) -> Cause:
    loader = crash.local("dataloader", DataLoader)
    place = of_function(type(loader.batch_sampler).__iter__) if loader is not None else None
    return Cause(
        "each of several processes is to get a share of the samples of its own, and Lightning knows no way to give it "
        "one through a batch sampler that is not made as PyTorch's is",
        "a subclass of torch.utils.data.BatchSampler with __init__(self, sampler, batch_size, drop_last); or "
        "trainer.use_distributed_sampler=false, and a batch sampler that draws the share of its rank itself",
        place,
    )


def port_taken(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "another job on this machine uses the port at which the processes meet",
        "MASTER_PORT=29511 (any free one) before the command, or end the other job",
    )


def nccl(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "NCCL could not set up or keep the connection between GPUs: two processes on one GPU, a driver or library "
        "mismatch, no peer-to-peer, or a network interface that does not reach the others",
        Fix(
            "NCCL_DEBUG=INFO before the same command says which; NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 tell apart "
            "whether it is the link; the item tests the network alone",
            items=("distributed",),
        ),
    )


def unused_parameters(crash: Crash, match: re.Match) -> Cause:
    trained = [(name, each) for name, each in crash.root.named_parameters() if each.requires_grad] if crash.root else []
    told = re.search(r"indices which did not receive grad for rank \d+: ([\d ]+)", str(crash.error))
    if told:
        unused = [trained[int(index)][0] for index in told[1].split() if int(index) < len(trained)]
    else:  # Lightning's own words: the gradients of the step before are still there
        unused = [name for name, parameter in trained if parameter.grad is None]
    what = f"{shown(unused)} took no part in the loss" if unused else "some parameters took no part in the loss"
    flag = "trainer.strategy.find_unused_parameters"
    allowed = f"{flag}=true" if flag in raw_leaves(crash.config) else "trainer.strategy=ddp_find_unused_parameters_true"
    return Cause(
        f"{what}, and DDP waits for their gradients",
        f"use them in the loss, or freeze them with requires_grad_(False); where that is meant, {allowed}",
        Place(parameter=shown(unused)),
    )


def device_assert(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "an index is out of range on the GPU: mostly a label outside the classes, or a token outside an embedding; "
        "the line above is where it was noticed, not where it happened",
        "trainer.accelerator=cpu raises the plain exception in the right line; "
        "CUDA_LAUNCH_BLOCKING=1 before the same command names the line on the GPU",
    )


def not_deterministic(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"{match[1]} has no deterministic implementation on this device, and trainer.deterministic asks for one",
        "trainer.deterministic=warn goes on and says so, or another operation",
    )


def no_accelerator(crash: Crash, match: re.Match) -> Cause:
    keys = keys_named(crash.config, "accelerator")
    allowed = f"{keys[0]}=cpu, or auto" if keys else 'Trainer(accelerator="auto") takes what is there'
    return Cause(
        "this machine, or this installation of PyTorch, has no such accelerator",
        f'{allowed}; python -c "import torch; print(torch.cuda.is_available())"',
        place_of(crash.config, *keys),
    )


def devices_of_cpu(crash: Crash, match: re.Match) -> Cause:
    known = dict.fromkeys(re.sub(r"\.\d+$", "", key) for key in raw_leaves(crash.config))  # a list has an index behind
    keys = [key for key in known if key.rpartition(".")[2] == "devices"]
    return Cause(
        "a CPU has no numbered devices: there, `devices` is how many processes train",
        f"{keys[0]}=1" if keys else "Trainer(devices=1)",
        place_of(crash.config, *keys),
    )


def moved_by_hand(crash: Crash, match: re.Match) -> Cause:
    keys = [key for key, value in raw_leaves(crash.config).items() if str(value).startswith("cuda")]
    if keys:
        return Cause(
            "the config asks for CUDA, and there is none here", f"{keys[0]}=cpu", place_of(crash.config, *keys)
        )
    return Cause(
        "the code asks for CUDA itself, whatever the Trainer runs on, and there is none here",
        "no .cuda() and no device='cuda': make it with device=x.device of a tensor at hand, or device=self.device, "
        "or register it with self.register_buffer(...)",
    )


def no_compiler(crash: Crash, match: re.Match) -> Cause:
    keys = [key for key in keys_named(crash.config, "compile") if OmegaConf.select(crash.config, key)]
    without = Fix("or install one: apt install g++, say", overrides=tuple(f"{key}=false" for key in keys))
    return Cause(
        f"torch.compile writes {match[1] or 'C'} code, and this machine has no compiler for it",
        without if keys else "leave torch.compile out, or install one: apt install g++, say",
        place_of(crash.config, *keys),
    )


def not_logged_in(crash: Crash, match: re.Match) -> Cause:
    keys = keys_named(crash.config, "offline")
    return Cause(
        "Weights & Biases wants an account, and this machine is not logged in to one",
        Fix("wandb login, once; offline, files in the run's directory are all", tuple(f"{key}=true" for key in keys)),
        place_of(crash.config, *keys),
    )


def stand_in_experiment(crash: Crash, match: re.Match) -> Cause | None:
    asked = getattr(getattr(crash.error, "obj", None), "__qualname__", "")
    if not asked.startswith("_DummyExperiment."):
        return None
    return Cause(
        "logger.experiment is the logger's own object in the first process alone: Lightning gives the others one whose "
        "methods do nothing, and which has no attributes",
        "self.log(...) or logger.log_hyperparams(...), which every process may call; or @rank_zero_only",
    )


def unreachable(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        "what it asks for over the network cannot be reached: this machine has no network, or the address is gone",
        "where that is a download, run it once with a network and keep the files, or put them where it looks for them",
    )


def no_such_file(crash: Crash, match: re.Match) -> Cause | None:
    told = str(getattr(crash.error, "filename", None) or match[1] or match[2])
    text = told.partition("\n")[0].strip("'\"")  # a worker's exception ends in its traceback
    path = Path(text)
    folder = next((parent for parent in path.parents if parent.is_dir()), None)
    if folder is None:
        return None
    hint = suggestion(path.name, [each.name for each in folder.iterdir()]) if folder == path.parent else ""
    holders = [key for key, value in raw_leaves(crash.config).items() if value == text]
    return Cause(
        f"{folder.resolve()} has no {path.relative_to(folder)}{hint}",
        f"{holders[0]}=<file>" if holders else "correct the path, or make the file first",
        place_of(crash.config, *holders),
    )


def import_failed(crash: Crash, match: re.Match) -> Cause:
    """A name that a module does not have, most often of another version, or a module that is not there."""
    if match["command"]:
        return Cause("what raises it needs a package that this environment does not have", match["command"])
    module, name = (match["module"], match["name"]) if match["name"] else match["missing"].rpartition(".")[::2]
    if not module:
        return Cause(
            f"no package of this environment and no folder that Python looks in has a module {name}",
            f"install what provides {name}, or take out the import",
        )
    return absent(module, name)


def attribute_missing(crash: Crash, match: re.Match) -> Cause:
    return absent(*match.groups())


def absent(module: str, name: str) -> Cause:
    """Say why a module does not have a name."""
    found = sys.modules.get(module)
    if is_own(str(getattr(found, "__file__", None))):
        return Cause(f"{module} has no {name}{suggestion(name, dir(found))}", "correct the name, or define it there")
    package = module.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    if package in sys.stdlib_module_names:
        package, version = "Python", platform.python_version()
    return Cause(
        f"{module} has no {name} in {f'{package} {version}'.strip()}: this code was written for another version",
        f"install the {package} that this code was written for, or use what took the place of {name}",
    )


def removed_hook(crash: Crash, match: re.Match) -> Cause:
    old, new = match.groups()
    return Cause(
        f"Lightning calls no {old} any more, and gives {new} no outputs",
        f"append what the step returns to a list of the module; read and clear that in {new}",
        hook(crash, old),
    )


# Of urllib, requests, httpx, urllib3, socket, aiohttp and huggingface_hub.
UNREACHABLE = (
    "URLError|ConnectionError|ConnectError|MaxRetryError|gaierror|ClientConnector\\w*Error|LocalEntryNotFoundError"
)

PATTERNS: list[Pattern] = [
    (r"^SystemExit: ", exit_called),
    (r"Support for `(\w+_epoch_end)` has been removed.* use the `(\w+)` hook", removed_hook),
    (
        r"^ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"
        r"|^ModuleNotFoundError: No module named '(?P<missing>[\w.]+)'"
        r"|^(?:ModuleNotFound|Import)Error: .*?(?P<command>pip install [\w.\[\]-]+)",
        import_failed,
    ),
    (r"^(?:Attribute|Type|Value|Index|Key)Error: ", prepared_on_one_rank),
    (r"^AttributeError: module '([\w.]+)' has no attribute '(\w+)'", attribute_missing),
    (r"Training with multiple optimizers is only supported with manual optimization", several_optimizers),
    (r"The closure hasn't been executed", closure_not_called),
    (r"^TypeError: \S*?(\w+)\(\) (?:missing \d+ required positional|takes .*positional)", hook_arguments),
    (r"object of type 'NoneType' has no len\(\)", no_dataset),
    (r"FileNotFoundError: .*?not found: (\S+)|FileNotFoundError: .*?No such file or directory: (.+)", no_such_file),
    (r"OutOfMemoryError|out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED|^MemoryError", out_of_memory),
    (r"grad can be implicitly created only for scalar outputs", not_a_scalar),
    (r"element 0 of tensors does not require grad", detached),
    (r"modified by an inplace operation: \[\S+ \[(.*?)\]\], which is output \d+ of (\w+)", modified_in_place),
    (r"leaf Variable that requires grad is being used in an in-place", leaf_modified),
    (r"Output \d+ of (\w+) is a view and is being modified inplace", view_modified),
    (r"Inference tensors cannot be saved for backward|Inplace update to inference tensor", made_in_inference_mode),
    (r"TypeError: \w+\(\).* got \(float\b|'float' object cannot be interpreted as an integer", size_is_fraction),
    (r"must be (?:int|tuple of ints|integers?), not float|slice indices must be integers", size_is_fraction),
    (r"backward through the graph a second time", twice),
    (r"Function '(\w+)' returned nan values in its (\d+)th output", nan_in_backward),
    (rf"{WORKER_ENDED.pattern}|unable to (?:mmap|open shared)", worker_died),
    (r"Too many open files|received \d+ items of ancdata", too_many_files),
    (r"[Cc]an't pickle|[Cc]annot pickle|Can't get local object", not_picklable),
    (r"num_samples should be a positive integer value, but got num_samples=0", empty_dataset),
    (r"TypeError: (\S+?)(?:\.__init__)?\(\) got multiple values for argument '(\w+)'", given_twice),
    (r"TypeError: (\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'", unexpected_argument),
    (r"optimizer got an empty parameter list", nothing_to_train),
    (r"monitor='([^']+)'\)` could not find the monitored key", monitor),
    (r"Early stopping conditioned on metric `([^`]+)` which is not available", monitor),
    (r"ReduceLROnPlateau conditioned on metric (\S+) which is not available", monitor),
    (r"must include a monitor when a `ReduceLROnPlateau` scheduler is used", plateau_without_monitor),
    (r"the 'loss' key needs to be present", no_loss_key),
    (r"Error\(s\) in loading state_dict", state_dict_mismatch),
    (r"checkpoint contains only the model", weights_only),
    (r"loaded state dict (?:contains a parameter group|has a different number of parameter groups)", other_optimizer),
    (r"Weights only load failed", pickled_objects),
    (r"'(?:function|method)' object has no attribute", stand_in_experiment),
    (r"Expected to have finished reduction|parameters that were not used in producing the loss", unused_parameters),
    (r"in this process with sizes (\[.*?\]) appears not to match sizes of the same param", ranks_built_apart),
    (r"No support for sparse tensors", sparse_buffers),
    (r"Lightning can't inject a \(distributed\) sampler into your batch sampler", batches_not_shared),
    (r"[Aa]ddress already in use|EADDRINUSE", port_taken),
    (r"No `(\w+)\(\)` method defined to run `Trainer\.(\w+)`", step_missing),
    (r"^FileExistsError", made_by_another_rank),
    (r"Connection closed by peer|Connection reset by peer|Broken pipe|peer.* closed", peer_gone),
    (r"DistStoreError|socket has timed out|Watchdog caught collective|[Tt]imed out (?:after|waiting)", timed_out),
    (r"NCCL|ncclUnhandled|ncclSystem|ncclRemote|ncclInternal", nccl),
    (r"device-side assert", device_assert),
    (r"(\w+) does not have a deterministic implementation", not_deterministic),
    (r"Found no NVIDIA driver|Torch not compiled with CUDA enabled|No CUDA GPUs are available", moved_by_hand),
    (r"No API key configured", not_logged_in),
    (rf"^(?:{UNREACHABLE}): |^RuntimeError: Error downloading ", unreachable),
    (r"No working (C\+\+) compiler found|Failed to find C compiler", no_compiler),
    (r"`devices` selected with `CPUAccelerator` should be an int", devices_of_cpu),
    (r"No supported gpu backend|can not run on your system|not a valid accelerator", no_accelerator),
]
