"""Why an operation refuses its tensors: shapes, labels, dtypes and devices."""

import re
import traceback
from math import prod

from training_checklist.diagnosis.cause import Cause, Pattern
from training_checklist.diagnosis.config_place import raw_leaves
from training_checklist.diagnosis.crash import LIGHTNING_MODULES, Crash, Step, is_a
from training_checklist.finding import Fix

# The attribute that sets what a module expects of its input, for the sentence on how to change it.
WIDTHS = ("in_features", "in_channels", "num_features", "normalized_shape", "num_channels", "input_size", "embed_dim")
FACTORIES = r"torch\.(?:ones|zeros|full|empty|rand|randn|randint|randperm|arange|linspace|eye|tensor|as_tensor)\("

LOADERS = {"VALIDATING": "val_dataloader", "SANITY_CHECKING": "val_dataloader", "TESTING": "test_dataloader"}
UNLABELLED = ("-1", "-100", "255")  # what pixels and tokens without a class have in most datasets


def matrix_product(crash: Crash, match: re.Match) -> Cause:
    rows, gets, expects, columns = match.groups()
    if hasattr(crash.module, "in_features"):
        return width(crash, gets, str(crash.module.in_features), "features")
    return Cause(
        f"a ({rows}, {gets}) matrix times a ({expects}, {columns}) one: {gets} and {expects} must be the same",
        "transpose or reshape one of them in that line",
    )


def channels(crash: Crash, match: re.Match) -> Cause:
    shape, expects, gets = match.groups()
    sizes = shape.split(", ")
    if sizes[-1] == expects and len(sizes) > 2:
        why = f"{crash.name} expects {expects} channels in dimension 1, gets {gets}; the last dimension has {expects}"
        return Cause(why, f"channels come first: x.movedim(-1, 1) before {crash.name}, or in the dataset")
    return width(crash, gets, expects, "channels")


def running_statistics(crash: Crash, match: re.Match) -> Cause:
    gets, expects = match.groups()
    return width(crash, gets, expects, "channels")


def normalized(crash: Crash, match: re.Match) -> Cause:
    expects, shape = match.groups()
    last = shape.split(", ")[-(expects.count(",") + 1) :]
    return width(crash, ", ".join(last), expects, "values in the last dimensions")


def expected_and_got(crash: Crash, match: re.Match) -> Cause:
    expects, gets = match.groups()
    return width(crash, gets, expects, "features")


def width(crash: Crash, gets: str, expects: str, unit: str) -> Cause:
    """Say that a module expects another size than it gets, where that is from, and the ways to make them fit."""
    where_from = crash.producer()
    why = f"{crash.name} expects {expects} {unit}, gets {gets}{where_from}"
    given = crash.argument("input", "x", "query")
    shape = tuple(given.shape) if given is not None else ()
    # Without the batch: what would be flattened.
    if unit == "features" and len(shape) > 2 and str(prod(shape[1:])) == expects:
        return Cause(f"{why}: the input {shape} is not flattened", f"x.flatten(1) before {crash.name}")
    if unit == "features" and len(shape) > 2 and expects in map(str, shape[1:-1]):
        axis = list(map(str, shape)).index(expects, 1)
        return Cause(f"{why}; dimension {axis} of the input {shape} has {expects}", f"x.transpose({axis}, -1)")
    setting = next((name for name in WIDTHS if hasattr(crash.module, name)), None)
    if setting is None or not crash.registered:
        return Cause(why, "make them the same, in the layer or in what it is given")
    made = crash.made_at(crash.path)
    return Cause(
        why,
        Fix(f"{setting}={gets} where {crash.path} is made{made}, or give it {expects} {unit}", items=("trace",)),
    )


def not_unpacked(crash: Crash, match: re.Match) -> Cause | None:
    kind = match[1]
    if crash.module is None:
        return None
    why = f"{crash.name} takes a tensor, gets a {kind}: most likely the whole batch, which is inputs and labels"
    giver = first_to_hold(crash, kind)
    given = None if giver is None else giver.place.beside(batch=crash.place.batch, note=f"given to {crash.name}")
    return Cause(why, "unpack it first: inputs, labels = batch", given)


def first_to_hold(crash: Crash, kind: str) -> Step | None:
    """Return the outermost step of the project that has the very object which the deepest call was given."""
    innermost = (crash.steps[-1], crash.own) if crash.own is not None else ()
    given = {id(value) for step in innermost for value in step.frame.f_locals.values() if type(value).__name__ == kind}
    own = (step for step in crash.steps if step.is_own)
    return next((step for step in own if given & set(map(id, step.frame.f_locals.values()))), None)


def dimensions(crash: Crash, match: re.Match) -> Cause:
    expects, gets = match.groups()
    if "," in gets:
        gets = f"one of shape ({gets})"
    return Cause(
        f"{crash.name} expects a {expects} input, gets {gets}{crash.producer()}",
        "x.unsqueeze(...) adds a missing dimension, x.flatten(1) or x.unflatten(1, ...) makes and splits them",
    )


def too_small(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"the image has become smaller than the kernel of {crash.name}: {match[1]}",
        Fix("fewer strides or poolings before it, padding, or larger images", items=("trace",)),
    )


def one_value(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"{crash.name} normalises over the batch, and this batch has one sample: ({match[1]})",
        "drop_last=True in the training DataLoader leaves the last, short batch out; or another batch size",
    )


def target_is_float(crash: Crash, match: re.Match) -> Cause:
    labels = labels_name(crash)
    return Cause(
        f"{criterion(crash)} takes class indices as torch.int64, and {labels} is {match[1].lower()}",
        f"return the label as an int in the dataset's __getitem__, or {labels}.long() before the criterion",
    )


def target_out_of_range(crash: Crash, match: re.Match) -> Cause:
    logits, labels = crash.argument("input"), crash.argument("target", "labels")
    classes = logits.shape[min(1, logits.dim() - 1)] if logits is not None else None
    low, high = spread(labels)
    seen = f"; this batch has labels from {low} to {high}" if low is not None else ""
    known = f"{classes} classes, labels 0 to {classes - 1}" if classes else "fewer classes"
    number = match[1]
    if number in UNLABELLED:
        fix = f"ignore_index={number} in the criterion if {number} means unlabelled; else map labels to 0 and up"
    elif low == 1 and high == classes:
        fix = "labels start at 1: subtract 1 in the dataset"
    else:
        keys = [key for key, value in raw_leaves(crash.config).items() if "classes" in key and value == classes]
        more = f"{keys[0]}={int(number) + 1}" if keys else f"a last layer of {int(number) + 1} outputs"
        fix = f"map labels to 0 to {classes - 1 if classes else 'C - 1'} in the dataset, or {more}"
    why = f"label {number} in {labels_name(crash)}, but the network has {known}{seen}"
    return Cause(why, Fix(fix, items=("limit_batches",)))


def index_out_of_range(crash: Crash, match: re.Match) -> Cause | None:
    size = getattr(crash.module, "num_embeddings", None)
    if size is None:
        return None
    low, high = spread(crash.argument("input"))
    return Cause(
        f"{crash.name} knows indices 0 to {size - 1}, gets {low} to {high}",
        f"num_embeddings={high + 1 if high is not None else '...'} where it is made{crash.made_at(crash.path)}, "
        f"or map unknown items to one index in the dataset",
    )


def batch_sizes(crash: Crash, match: re.Match) -> Cause:
    gets, labels = match.groups()
    return Cause(
        f"{criterion(crash)} gets {gets} rows of logits for {labels} labels: {shapes(crash)}",
        Fix(
            "something between batch and logits mixes the batch dimension with another: a view(-1, n) or flatten(0)",
            items=("trace",),
        ),
    )


def target_shape(crash: Crash, match: re.Match) -> Cause:
    labels, target = labels_name(crash), crash.argument("target")
    shape = tuple(target.shape) if target is not None else ()
    if shape and shape[-1] == 1:
        fix = f"{labels}.squeeze(-1) before the criterion"
    elif target is not None and not target.is_floating_point():
        fix = f"{labels}.argmax(1) if it is one-hot; else one label a sample"
    else:
        fix = f"{labels}.argmax(1) if it is one-hot; probabilities must have the shape of the logits"
    return Cause(f"{criterion(crash)} takes one class index a sample: {shapes(crash)}", fix)


def target_is_one_hot(crash: Crash, match: re.Match) -> Cause:
    labels = labels_name(crash)
    return Cause(
        f"{labels} has the shape of the logits, so it is read as probabilities, but it is {match[1].lower()}",
        f"{labels}.argmax(1) if it is one-hot, {labels}.float() if these are probabilities",
    )


def class_dimension(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"{criterion(crash)} has classes in dimension 1, behind the batch: {shapes(crash)}",
        "logits.movedim(-1, 1) before the criterion, or flatten both to (B * T, C) and (B * T)",
    )


def same_size(crash: Crash, match: re.Match) -> Cause:
    target, logits = (text.removeprefix("torch.Size(").strip("()[]") for text in match.groups())
    extra, fewer = ("logits", "labels") if logits.count(",") > target.count(",") else ("labels", "logits")
    return Cause(
        f"{criterion(crash)} compares value by value: logits [{logits}], labels [{target}]",
        f"{extra}.squeeze(-1), or {fewer}.unsqueeze(-1), before the criterion",
    )


def target_is_integer(crash: Crash, match: re.Match) -> Cause:
    labels = labels_name(crash)
    return Cause(
        f"{criterion(crash)} takes labels as floating point numbers, and {labels} is an integer",
        f"{labels}.float() before the criterion; for classes, CrossEntropyLoss takes integers",
    )


def not_probabilities(crash: Crash, match: re.Match) -> Cause:
    low, high = spread(crash.argument(match[1]))
    advice = "BCEWithLogitsLoss takes logits as they are"
    if match[1] == "target":
        advice = "labels must be 0 to 1, and so must images that are the target: ToTensor makes them so, Normalize not"
    return Cause(f"{criterion(crash)} takes probabilities, and its {match[1]} goes from {low} to {high}", advice)


def halved_and_doubled(crash: Crash, match: re.Match) -> Cause | None:
    """Of an odd size, halving leaves out a row that doubling does not bring back: 15 becomes 7, and then 14."""
    small, large = sorted(int(each) for each in match.groups()[:2])
    if large - small != 1 or small % 2:
        return None
    given = crash.argument("x", "inputs", "input", "images")
    shape = f": it gets {tuple(given.shape)}" if given is not None and given.ndim > 2 else ""
    return Cause(
        f"a size of {large} was halved to {small // 2} and doubled to {small} on its way through the network{shape}",
        "make the input's sizes multiples of 2 for each time that the network halves them, as by a crop or by padding",
    )


def broadcast(crash: Crash, match: re.Match) -> Cause:
    first, second, axis = match.groups()
    expression = f" in {crash.own.expression}" if crash.own is not None and "\n" not in crash.own.expression else ""
    return Cause(
        f"sizes {first} and {second} in dimension {axis} do not go together{expression}",
        "make the sizes the same, or one of them 1, which is then repeated",
    )


def joined(crash: Crash, match: re.Match) -> Cause:
    axis, first, other, number = match.groups()
    return Cause(
        f"tensors that are joined along dimension {axis} need the same size in all others: the first has {first}, and "
        f"number {number} (from 0) has {other}",
        "print their shapes before that line: pooling, strides or cropping differ between the branches",
    )


def metric_shapes(crash: Crash, match: re.Match) -> Cause:
    predictions, targets = match.groups()
    why = f"the metric compares number by number; predictions are ({predictions}), targets ({targets})"
    for extra, fewer, name in ((predictions, targets, "predictions"), (targets, predictions, "targets")):
        if extra == f"{fewer}, 1":
            return Cause(
                why,
                f"{name}.squeeze(-1) before the metric and the criterion; a criterion such as MSELoss would compare "
                "every prediction with every target",
            )
    return Cause(why, "give the network's output the shape of the targets, or reduce it to one number a target first")


def reshape(crash: Crash, match: re.Match) -> Cause:
    shape, size = match.groups()
    return Cause(
        f"{size} values do not fill the shape ({shape})",
        "x.flatten(1) keeps the batch and needs no number; a size written out fails for other images or last batches",
    )


def not_contiguous(crash: Crash, match: re.Match) -> Cause:
    return Cause("after a transpose or permute the values do not lie in a row, which view needs", "reshape(...) for it")


def unequal_samples(crash: Crash, match: re.Match) -> Cause | None:
    if "collate" not in "".join(crash.stages) and "collate" not in str(crash.error):
        return None
    loader = loader_of(crash.error)
    return Cause(
        f"samples of different shapes cannot make one batch: {match[1]}",
        "resize, crop or pad in the dataset, or give the DataLoader a collate_fn that does",
        crash.place.beside(loader=loader) if loader else None,
    )


def loader_of(error: BaseException) -> str:
    """Return "test_dataloader" where one of Lightning's loops (2.6) was loading while an exception was raised."""
    found = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        loop = frame.f_locals.get("self")
        stage = getattr(loop, "_stage", None) if type(loop).__name__ == "_EvaluationLoop" else None
        known = "train_dataloader" if type(loop).__name__ == "_FitLoop" else LOADERS.get(getattr(stage, "name", ""))
        found = known or found
    return found


def not_collatable(crash: Crash, match: re.Match) -> Cause:
    return Cause(
        f"a sample holds a {match[1]}, which has no place in a batch of tensors",
        "return tensors, arrays, numbers or strings from the dataset's __getitem__ (it may lack a return)",
    )


def unregistered(crash: Crash) -> str:
    """Return what is wrong where the module at work is one that its parent does not know."""
    if crash.module is None or crash.registered:
        return ""
    name = crash.path or f"the {type(crash.module).__name__}"
    return f"{name} is not registered in the model: .to(device) leaves it behind, and no optimizer has it"


def devices(crash: Crash, match: re.Match) -> Cause:
    lost = unregistered(crash)
    if lost:
        return Cause(lost, "nn.ModuleList([...]) for a list" if crash.path else "self.name = ... in __init__")
    at_hand = crash.tensors()
    found = {str(tensor.device) for tensor in at_hand.values()}
    line = crash.own.source if crash.own is not None else ""
    if re.search(r"\bmeta\b", str(crash.error)):
        return Cause(
            "a tensor on the meta device has a shape and no values: the module was made under "
            "torch.device('meta') or init_empty_weights, and never filled",
            "module.to_empty(device=...) and then load the weights; or make it without the meta device",
        )
    if re.search(FACTORIES, line) and "device=" not in line:
        made = re.search(FACTORIES, line)[0]
        return Cause(f"{made}...) makes its tensor on the CPU", f"{made}..., device=x.device)")
    if len(found) > 1:
        odd = [name for name, tensor in at_hand.items() if tensor.device.type == "cpu"]
        return Cause(
            f"{', '.join(odd)} on the CPU, the rest on {', '.join(sorted(found - {'cpu'}))}",
            "make it with device=x.device; a constant of a module belongs into self.register_buffer(...), "
            "and Lightning moves tensors in tuples, lists and dicts of a batch, not in other classes",
        )
    return Cause(
        "a tensor, or a module that its parent does not know, was left on another device",
        Fix("the item finds it on the CPU alone", items=("device",)),
    )


def dtypes(crash: Crash, match: re.Match) -> Cause | None:
    message = str(crash.error)
    types = {str(tensor.dtype).removeprefix("torch.") for tensor in crash.tensors().values()}
    words = message.lower()
    if "half" in words or "bfloat16" in words or types & {"float16", "bfloat16"}:
        precision = {key: value for key, value in raw_leaves(crash.config).items() if key.endswith("trainer.precision")}
        setting = f" ({', '.join(f'{key}={value}' for key, value in precision.items())})" if precision else ""
        return Cause(
            f"a 16-bit and a 32-bit tensor meet in {crash.name}: what autocast{setting} has made does not fit "
            "what was made outside of it, and this operation does not convert",
            "x.to(y.dtype) in that line, or make the buffer with dtype=x.dtype; trainer.precision=32-true shows "
            "whether all else works",
        )
    if "double" in words or "float64" in types:
        return Cause(
            f"{crash.name} has 32-bit weights and gets 64-bit numbers, which is what NumPy makes",
            "x.float() in the dataset's __getitem__, or dtype=np.float32 where the array is made",
        )
    if re.search(r"long|int|char|byte", words):
        return Cause(
            f"{crash.name} takes floating point numbers and gets integers",
            "x.float() in the dataset's __getitem__; images also divided by 255",
        )
    return None


def criterion(crash: Crash) -> str:
    if crash.module is None or is_a(crash.module, LIGHTNING_MODULES):
        return crash.own.expression if crash.own is not None and "\n" not in crash.own.expression else "the criterion"
    return f"{crash.name} ({type(crash.module).__name__})" if crash.path else crash.name


def labels_name(crash: Crash) -> str:
    """Return what one's own code calls the criterion's second argument."""
    target = crash.argument("target", "labels")
    return next((name for name, tensor in crash.tensors().items() if tensor is target), "the target")


def shapes(crash: Crash) -> str:
    logits, target = crash.argument("input"), crash.argument("target")
    if logits is None or target is None:
        return "see the shapes above"
    return f"logits {tuple(logits.shape)}, {labels_name(crash)} {tuple(target.shape)}"


def spread(tensor: object) -> tuple[float | None, float | None]:
    """Return the smallest and the largest value, or None twice where a broken device no longer tells them."""
    try:
        return tensor.min().item(), tensor.max().item()
    except (AttributeError, RuntimeError):
        return None, None


PATTERNS: list[Pattern] = [
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", matrix_product),
    (r"expected input\[(.+?)\] to have (\d+) channels, but got (\d+) channels", channels),
    (r"running_\w+ should contain (\d+) elements not (\d+)", running_statistics),
    (r"Given normalized_shape=\[(.+?)\].* but got input of size ?\[(.+?)\]", normalized),
    (r"must be equal to input_size\. Expected (\d+), got (\d+)", expected_and_got),
    (r"was expecting embedding dimension of (\d+), but got (\d+)", expected_and_got),
    (r"TypeError: conv\w+\(\) received an invalid combination of arguments - got \((list|tuple|dict),", not_unpacked),
    (r"argument 'input' \(position 1\) must be Tensor, not (list|tuple|dict)", not_unpacked),
    (
        r"'(list|tuple|dict)' object has no attribute '(?:flatten|view|reshape|shape|size|float|to|dim|squeeze)'",
        not_unpacked,
    ),
    (r"Expected (\dD.*?) input to \w+, but got input of size: \[(.*?)\]", dimensions),
    (r"expected (\dD.*?) input \(got (\dD) input\)", dimensions),
    (r"(Calculated padded input size per channel: .*) Kernel size can't be greater", too_small),
    (r"(Given input size: .*)Output size is too small", too_small),
    (r"Expected more than 1 value per channel when training, got input size torch\.Size\(\[(.*?)\]\)", one_value),
    (r"expected target dtype to be Long or Byte, but got (\w+)", target_is_float),
    (r"expected scalar type Long but found (\w+)", target_is_float),
    (r"Target (-?\d+) is out of bounds", target_out_of_range),
    (r"IndexError: index out of range in self", index_out_of_range),
    (r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)", batch_sizes),
    (r"0D or 1D target tensor expected", target_shape),
    (r"Expected floating point type for target with class probabilities, got (\w+)", target_is_one_hot),
    (r"Expected target size \[.*?\], got \[.*?\]", class_dimension),
    (r"[Tt]arget size \((.*?\)?)\) .*?input size \((.*?\]?\)?)\)", same_size),
    (
        r"[Pp]redictions and targets are expected to have the same shape, but got .*?\[(.*?)\].*?\[(.*?)\]",
        metric_shapes,
    ),
    (r"result type Float can't be cast to the desired output type (?:Long|Int)", target_is_integer),
    (r"Found dtype (?:Long|Int) but expected Float", target_is_integer),
    (r"all elements of (input|target) should be between 0 and 1", not_probabilities),
    (r"tensors? to be on the same device", devices),
    (r"not on the expected device|out of meta tensor|on meta tensors", devices),
    (r"Input type \(torch\.cuda\.\w+\) and (?:weight|bias) type \(torch\.\w+\)", devices),
    (r"Input type \(torch\.\w+\) and (?:weight|bias) type \(torch\.cuda\.\w+\)", devices),
    (r"found two different devices|should be either on cpu or on the same device", devices),
    (r"same dtype|dtypes match|Expected self\.dtype to be equal|expected scalar type \w+ but found", dtypes),
    (r"Input type \(.*?\) and (?:weight|bias) type \(.*?\) should be the same", dtypes),
    (r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)", broadcast),
    (r"must match except in dimension 1\. Expected size (\d+) but got size (\d+)", halved_and_doubled),
    (r"must match except in dimension (\d+)\. Expected size (\d+) but got size (\d+) for tensor number (\d+)", joined),
    (r"shape '\[(.*?)\]' is invalid for input of size (\d+)", reshape),
    (r"view size is not compatible", not_contiguous),
    (r"stack expects each tensor to be equal size, but (got .*)", unequal_samples),
    (r"default_collate: batch must contain .*; found <class '(\w+)'>", not_collatable),
]
