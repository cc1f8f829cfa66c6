"""Seconds of data=image_folder for an epoch, as multiples of those of a bare loader. python loader.py --help

The bare loader is torchvision's ImageFolder in a DataLoader with shuffle=True, the same transforms and workers. The two
take turns, an epoch each.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from digit_classifier import class_folders
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}


def write_images(folder: Path, count: int) -> None:
    """Write JPEGs of 500x375 pixels, ImageNet's usual size, as smooth as photographs: about 60 KB each."""
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = Image.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8)).resize((500, 375))
        path = folder / "train" / str(number % 4) / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels.filter(ImageFilter.SHARPEN).save(path, quality=90)
    for part in ("val", "test"):
        path = folder / part / "0" / "0.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels.save(path)


def main(arguments: argparse.Namespace) -> None:
    write_images(arguments.folder, arguments.images)
    sys.path.insert(0, str(Path.cwd()))  # for examples/
    class_folders.register()
    overrides = [
        "data=image_folder",
        f"data.folder={arguments.folder}",
        "data_dir=data",
        "output_dir=nowhere",
        "seed=0",
    ]
    overrides += [f"data.num_workers={arguments.workers}", "data.mean=[0,0,0]", "data.std=[1,1,1]"]
    with initialize_config_dir(str(Path("conf").resolve()), version_base="1.3"):
        data = compose("train", overrides=overrides).data
    datamodule = instantiate(data)
    datamodule.setup("fit")
    transforms = v2.Compose([*instantiate(data.train_transforms), v2.PILToTensor()])
    bare = DataLoader(
        ImageFolder(arguments.folder / "train", transforms),
        datamodule.batch_size,
        shuffle=True,
        num_workers=arguments.workers,
        persistent_workers=arguments.workers > 0,
    )
    loaders = {"project": datamodule.train_dataloader(), "bare": bare}
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    clock = CLOCKS[arguments.clock]
    for _ in range(arguments.repeats + 1):
        for name, loader in loaders.items():
            started = clock()
            for _ in loader:
                pass
            seconds[name].append(clock() - started)
    ratios = [ours / theirs for ours, theirs in zip(seconds["project"][1:], seconds["bare"][1:], strict=True)]
    per_second = arguments.images / statistics.median(seconds["project"][1:])
    print(json.dumps({"ratios": ratios, "images_per_second": per_second}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="to write the images to")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    main(parser.parse_args())
