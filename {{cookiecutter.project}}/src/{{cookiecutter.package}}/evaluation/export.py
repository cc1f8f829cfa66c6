"""A trained network as a file that needs none of this code, checked against the network on real images."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from training_config.errors import ConfigError
from training_runs.errors import JobError

CHECKED = 256  # test images
TOLERANCE = 1e-4  # largest difference of a probability; other kernels sum in another order


class Deployed(nn.Module):
    """What is exported. With a DataModule of images: uint8 (B, C, H, W) -> probabilities (B, num_classes).

    Normalisation and the model's `probabilities`, or a softmax, are inside then; else it is the model as it is. The
    forms below call its argument images.
    """

    def __init__(self, model: LightningModule, datamodule: LightningDataModule | None) -> None:
        super().__init__()
        self.model = model
        self.probabilities = getattr(model, "probabilities", partial(torch.softmax, dim=1))
        self.register_buffer("mean", None if datamodule is None else datamodule.mean)
        self.register_buffer("std", None if datamodule is None else datamodule.std)

    def forward(self, images: Tensor) -> Tensor:
        if self.mean is None:
            return self.model(images)
        return self.probabilities(self.model((images.float() - self.mean) / self.std))


def deployable(model: LightningModule, datamodule: LightningDataModule) -> tuple[nn.Module, Tensor, str, str]:
    """Return what is exported, a batch to try it with, and what to call what it takes and gives.

    Raises:
        ConfigError: no input is known; see `contract`.
    """
    if hasattr(datamodule, "image_shape"):
        datamodule.setup("test")
    if hasattr(datamodule, "image_shape") and hasattr(datamodule, "test_set"):  # a stream has no test_set
        images = torch.stack([datamodule.test_set[index][0] for index in range(min(CHECKED, len(datamodule.test_set)))])
        deployed = Deployed(model, datamodule).eval().cpu().to(memory_format=torch.contiguous_format)  # for files
        return deployed, images, "test images", "probabilities"
    example = model.example_input_array
    if not isinstance(example, Tensor) or len(example) < 2:
        raise ConfigError(
            f"export: what {type(model).__name__} takes is not known; set self.example_input_array in its __init__ "
            "to a batch of two samples or more"
        )
    return Deployed(model, None).eval().cpu(), example.cpu(), "example inputs", "outputs"


def shape(batch: Tensor) -> str:
    return f"({', '.join(['batch', *map(str, batch.shape[1:])])})"


def check_form(form: str) -> None:
    """Refuse what no model can be written as here.

    Raises:
        ConfigError: no such form, or its packages are not installed.
    """
    if str(form) not in FORMS:
        raise ConfigError(f"export={form} must be one of {', '.join(FORMS)}")
    lacking = [package for package in FORMS[form][1] if find_spec(package) is None]
    if lacking:
        raise ConfigError(f"export={form} needs {', '.join(lacking)}; install with: pip install -e '.[{form}]'")


def export_model(model: LightningModule, datamodule: LightningDataModule, form: str, folder: Path) -> dict[str, str]:
    """Write the model to `folder`, compare it on test images, and return what to tell the user.

    Raises:
        ConfigError: no input is known; see `contract`.
        JobError: the file answers otherwise than the model; it is not kept.
    """
    write, _ = FORMS[form]
    deployed, images, takes, gives = deployable(model, datamodule)
    try:
        path, run, usage = write(deployed, images, folder)
    except Exception as error:  # as many kinds as there are networks
        reason = str(error).strip().partition("\n")[0]
        raise JobError(f"export={form}: torch cannot export this network: {type(error).__name__}: {reason}") from error
    with torch.no_grad():
        difference = float((run(images) - deployed(images)).abs().max())
    if not difference <= TOLERANCE:
        path.unlink()
        raise JobError(f"export={form}: {gives} of the file differ by {difference:.2g}; it was not kept")
    checked = f"{len(images)} {takes}, largest difference {difference:.1g}"
    takes = f"{shape(images)} {str(images.dtype).removeprefix('torch.')}"
    gives = f"{shape(deployed(images[:2]))} {gives}"
    return {"written": str(path), "maps": f"{takes} -> {gives}", "checked": checked, "use": usage}


Written = tuple[Path, Callable[[Tensor], Tensor], str]


def write_onnx(deployed: nn.Module, images: Tensor, folder: Path) -> Written:
    import onnxruntime  # pyrefly: ignore[missing-import]

    path = folder / "model.onnx"
    torch.onnx.export(
        deployed,
        (images[:2],),
        path,
        input_names=["images"],
        output_names=["probabilities"],
        dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(batch: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"images": batch.numpy()})[0])

    return path, run, f"onnxruntime.InferenceSession('{path.name}').run(None, dict(images=batch))"


def write_torch_export(deployed: nn.Module, images: Tensor, folder: Path) -> Written:
    path = folder / "model.pt2"
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(deployed, (images[:2],), dynamic_shapes={"images": {0: batch}}), path)
    return path, torch.export.load(path).module(), f"torch.export.load('{path.name}').module()(batch)"


# By name: what writes it, and the packages that it needs beyond the project's own.
FORMS = {"onnx": (write_onnx, ("onnx", "onnxscript", "onnxruntime")), "torch_export": (write_torch_export, ())}
