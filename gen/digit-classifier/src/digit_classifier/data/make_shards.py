"""Writes the images of data=image_folder into shards for data=shards.

python -m digit_classifier.data.make_shards my_shards data.folder=my_images
"""

import json
import sys
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from webdataset import TarWriter  # pyrefly: ignore[missing-import] -- needs pip install -e '.[shards]'

from .. import class_folders
from .image_files import ImageFiles
from .image_folder import ImageFolderDataModule

SAMPLES = 1000  # a shard; of photographs of 100 KB that is 100 MB, large enough to stream well


def make_shards(folder: Path, datamodule: ImageFolderDataModule, samples: int = SAMPLES) -> None:
    """Write each part of the data in an order by its split seed, so that each shard has all classes, and index.json."""
    folder.mkdir(parents=True, exist_ok=True)
    datamodule.prepare_data()
    mean, std = datamodule.statistics
    index = {"class_names": datamodule.class_names, "mean": mean, "std": std}
    for part, images in datamodule.parts().items():
        index[part] = write_part(folder, part, images, samples, datamodule.split_seed)
        print(f"{part}: {len(images)} images in {len(index[part])} shards")
    (folder / "index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")


def write_part(folder: Path, part: str, images: ImageFiles, samples: int, seed: int) -> dict[str, list[int]]:
    """Return the labels of each shard, by its name."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed)).tolist()
    labels = {}
    for start in range(0, len(order), samples):
        name = f"{part}-{start // samples:06}.tar"
        chosen = order[start : start + samples]
        with TarWriter(str(folder / name), encoder=False) as writer:
            for index in chosen:
                path, label = images.path(index), int(images.labels[index])
                writer.write(
                    {"__key__": f"{index:09}", path.suffix[1:].lower(): path.read_bytes(), "cls": str(label).encode()}
                )
        labels[name] = images.labels[chosen].tolist()
    return labels


def main() -> None:
    folder, *overrides = sys.argv[1:]
    class_folders.register()
    with initialize_config_dir(str(Path("conf").resolve()), version_base="1.3"):
        cfg = compose("train", overrides=["data=image_folder", "data_dir=data", *overrides])
    make_shards(Path(folder), instantiate(cfg.data))


if __name__ == "__main__":
    main()
