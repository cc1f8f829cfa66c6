"""Images as people have them: in folders or a CSV, of any size, some of them damaged."""

import csv
import logging
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from PIL import Image
from training_config.errors import ConfigError
from training_runs.errors import DataError
from training_runs.start.refusals import one_line

CLASSES = ("cat", "dog", "owl")
SHAPE = "data.image_shape=[3,24,24]"


@pytest.fixture(autouse=True)
def resolvers(root):
    from digit_classifier import class_folders

    class_folders.register()


def picture(number: int) -> Image.Image:
    """Of a size and colours of its own."""
    pixels = torch.randint(
        0, 256, (20 + number % 7, 30 + number % 5, 3), generator=torch.Generator().manual_seed(number)
    )
    return Image.fromarray(pixels.to(torch.uint8).numpy())


def fill(folder: Path, each: int = 10, classes=CLASSES) -> Path:
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            picture(100 * label + number).save(folder / name / f"{number:02}.{('png', 'jpg')[number % 2]}")
    return folder


@pytest.fixture
def build(compose, tmp_path):
    """`build(folder, *overrides)`: the DataModule, set up."""

    def run(folder: Path, *overrides: str):
        overrides = (f"data.folder={folder.as_posix()}", "data.num_workers=0", SHAPE, *overrides)
        datamodule = instantiate(compose("data=image_folder", *overrides).data)
        datamodule.prepare_data()
        datamodule.setup("fit")
        return datamodule

    return run


def paths(datamodule) -> dict[str, list[str]]:
    sets = {"train": datamodule.train_set.dataset, "val": datamodule.val_set, "test": datamodule.test_set}
    return {name: images.names for name, images in sets.items()}


def test_one_folder_is_split_by_class_and_seed(build, tmp_path):
    folder = fill(tmp_path / "animals")
    datamodule = build(folder, "data.val_share=0.2")
    assert datamodule.class_names == list(CLASSES)
    parts = paths(datamodule)
    assert {name: len(names) for name, names in parts.items()} == {"train": 21, "val": 6, "test": 3}
    assert len(set().union(*parts.values())) == 30
    assert sorted(datamodule.val_set.labels.tolist()) == [0, 0, 1, 1, 2, 2]
    assert paths(build(folder, "data.val_share=0.2", "seed=9")) == parts
    assert paths(build(folder, "data.val_share=0.2", "data.split_seed=9")) != parts


def test_shares_are_of_the_whole_class(build, tmp_path):
    parts = paths(build(fill(tmp_path / "animals"), "data.val_share=0.4", "data.test_share=0.4"))
    assert {name: len(names) for name, names in parts.items()} == {"train": 6, "val": 12, "test": 12}
    with pytest.raises(InstantiationException, match=r"test_share=0\.6 must be less than 1"):
        build(tmp_path / "animals", "data.val_share=0.4", "data.test_share=0.6")


def test_transform_that_fails_is_named_with_the_image_which_is_not_blamed(build, tmp_path):
    crop = "{_target_: torchvision.transforms.v2.RandomCrop, size: [24, 24]}"
    datamodule = build(fill(tmp_path / "animals"), f"data.train_transforms=[{crop}]")
    said = r"^Required crop size (.|\n)*data\.train_transforms, of .*\.(png|jpg): \d+ x 2[0-3] pixels$"
    with pytest.raises(ValueError, match=said):
        [datamodule.train_set[index] for index in range(10)]


def test_folders_train_val_and_test_are_taken_as_they_are(build, tmp_path):
    for number, part in enumerate(("train", "val", "test"), start=2):
        fill(tmp_path / "animals" / part, number)
    sizes = {name: len(names) for name, names in paths(build(tmp_path / "animals")).items()}
    assert sizes == {"train": 6, "val": 9, "test": 12}


@pytest.mark.parametrize("place", ["cat", "train", "train/cat"])
def test_link_that_leads_out_of_the_folder_is_refused(build, tmp_path, place):
    folder = fill(tmp_path / "images" / ("train" if "/" in place else "."))
    folder = tmp_path / "images"
    fill(tmp_path / "elsewhere")
    shutil.rmtree(folder / place, ignore_errors=True)
    (folder / place).symlink_to(tmp_path / "elsewhere" / ("cat" if "cat" in place else "."))
    with pytest.raises((ConfigError, OmegaConfBaseException), match=r"a link in .* leads out of data\.folder="):
        build(folder)


def test_csv_says_labels_and_parts(build, tmp_path):
    folder = fill(tmp_path / "heap", classes=("all",))
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "part"])
        parts = ("train", "train", "val", "test", "train")
        rows.writerows([f"all/{n:02}.{('png', 'jpg')[n % 2]}", f"c{n % 2}", parts[n // 2]] for n in range(10))
    datamodule = build(folder, f"data.labels={(tmp_path / 'labels.csv').as_posix()}")
    assert datamodule.class_names == ["c0", "c1"]
    assert paths(datamodule)["val"] == ["all/04.png", "all/05.jpg"]
    (folder / "all/00.png").unlink()
    with pytest.raises(DataError, match=r"labels\.csv: path=.*00\.png must be a file"):
        build(folder, f"data.labels={(tmp_path / 'labels.csv').as_posix()}")


def test_class_that_a_part_lacks_is_said(build, tmp_path, caplog):
    fill(tmp_path / "animals/train", 3)
    fill(tmp_path / "animals/val", 3, CLASSES[:2])
    with caplog.at_level(logging.WARNING):
        build(tmp_path / "animals")
    assert "animals: val has no image of owl" in caplog.text
    fill(tmp_path / "animals/val/more", 1, ["x"])
    with pytest.raises(DataError, match="has a folder more, which is none of the classes cat, dog, owl"):
        build(tmp_path / "animals")


@contextmanager
def batches_of(loader):
    """The loader's batches; its workers end at once, not when the exception that holds them is collected."""
    batches = iter(loader)
    try:
        yield batches
    finally:
        if loader.num_workers:
            batches._shutdown_workers()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("damage", ["no picture", "bomb", "pipe"])
def test_damaged_image_is_named_in_one_line(build, tmp_path, workers, damage):
    datamodule = build(fill(tmp_path / "animals"), f"data.num_workers={workers}")
    path = tmp_path / "animals" / datamodule.val_set.names[2]
    path.unlink()
    if damage == "no picture":
        path.write_text("no picture", encoding="utf-8")
    elif damage == "bomb":
        Image.new("1", (12_000, 12_000)).save(path, format="png")
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    loader = datamodule.val_dataloader()
    with pytest.raises(DataError) as refused, one_line(OmegaConf.create()), batches_of(loader) as batches:
        list(batches)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_image_of_one_by_five_thousand_pixels_is_taken(build, tmp_path):
    folder = fill(tmp_path / "animals")
    Image.new("RGB", (1, 5000), "red").save(folder / "cat/long.png")
    datamodule = build(folder)
    for read in (datamodule.load_image, datamodule.train_set.dataset.read):
        assert read(folder / "cat/long.png").shape == (3, 24, 24)


def test_transforms_that_give_something_else_than_the_network_takes_are_refused(build, tmp_path):
    small = "data.eval_transforms=[{_target_:PIL.ImageOps.fit,_partial_:true,size:[8,8]}]"
    with pytest.raises(ConfigError, match=r"data\.eval_transforms give \[3, 8, 8\] torch\.uint8 of an image"):
        build(fill(tmp_path / "animals"), small).val_set[0]


def test_what_is_wrong_with_transforms_is_one_line_from_a_loader_process_too(build, tmp_path):
    small = "[{_target_: PIL.ImageOps.fit, _partial_: true, size: [8, 8]}]"
    datamodule = build(fill(tmp_path / "animals"), f"data.train_transforms={small}", "data.num_workers=1")
    loader = datamodule._loader(datamodule.train_set, sampler=None)
    with pytest.raises(ConfigError) as refused, one_line(OmegaConf.create()), batches_of(loader) as batches:
        list(batches)
    assert str(refused.value).startswith("data.train_transforms give [3, 8, 8] torch.uint8 of an image")
    assert "\n" not in str(refused.value)


def test_augmentation_follows_from_seed_epoch_and_image(build, tmp_path):
    datamodule = build(fill(tmp_path / "animals"))

    def image(epoch: int):
        return datamodule.train_set[epoch, 3][0]

    assert torch.equal(image(1), image(1))
    assert not torch.equal(image(1), image(2))


@pytest.fixture
def run(train, tmp_path):
    """A short run on a folder of images, with its own overrides."""
    folder = fill(tmp_path / "animals")
    overrides = ("data=image_folder", f"data.folder={folder.as_posix()}", SHAPE, "data.num_workers=0")
    return train(*overrides, "++trainer.limit_test_batches=1.0", "data.test_share=0.3")


def test_prediction_sees_an_image_as_the_test_does(run, evaluate, tmp_path):
    evaluate(f"run={run.as_posix()}")
    with (run / "eval/best/predictions.csv").open(newline="", encoding="utf-8") as file:
        tested = {row.pop("sample"): row for row in csv.DictReader(file)}
    for name, row in tested.items():
        row.pop("label")
        (tmp_path / "again" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "animals" / name, tmp_path / "again" / name)
    shutil.rmtree(tmp_path / "animals")  # a run knows its classes by itself
    evaluate(f"run={run.as_posix()}", f"predict={tmp_path.as_posix()}/again")
    with (run / "eval/best/predictions_again.csv").open(newline="", encoding="utf-8") as file:
        predicted = {row.pop("sample"): row for row in csv.DictReader(file)}
    assert len(tested) == 9
    assert predicted == tested
    assert list(predicted) == list(tested)


def test_worst_mistakes_have_the_names_of_their_files(build, tmp_path):
    from digit_classifier.evaluation import figures

    images = build(fill(tmp_path / "animals")).test_set
    wrong = torch.eye(3)[(images.labels + 1) % 3]
    axes = figures.worst_mistakes(images, wrong, images.labels, CLASSES, 3, images.names).axes[0]
    others = {"cat": "dog", "dog": "owl", "owl": "cat"}
    said = [f"{file}\n{others[label]} (100%)\nis {label}" for label, file in (name.split("/") for name in images.names)]
    assert sorted(text.get_text() for text in axes.texts) == sorted(said)


@pytest.fixture
def photos(tmp_path):
    """Images of which each has some labels or none, and the overrides that train on them."""
    folder = fill(tmp_path / "photos", each=20, classes=("a", "b"))
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*g"))
    cells = ["", "sea", "sea;sand", "sand;tree"]
    rows = [f"{name},{cells[place % 4]}" for place, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]), encoding="utf-8")
    return f"data.folder={folder.as_posix()}", f"data.labels={tmp_path.as_posix()}/labels.csv", SHAPE


def test_images_with_several_labels_are_trained_on_tested_and_predicted(photos, train, evaluate, tmp_path):
    run = train(
        "+experiment=several_labels",
        "data=image_folder",
        "model=cnn",
        "callbacks=[checkpoint,figures]",
        "data.num_workers=0",
        *photos,
    )
    assert (run / "figures/labels_found.png").is_file()
    evaluate(f"run={run.as_posix()}")
    with (run / "eval/best/predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = {row["path"]: row["label"] for row in csv.DictReader((tmp_path / "labels.csv").open(encoding="utf-8"))}
    for row in rows:
        assert set(row["label"].split(";")) == set(right[row["sample"]].split(";"))
        probable = [name for name in ("sand", "sea", "tree") if float(row[f"p({name})"]) >= 0.5]
        assert row["prediction"] == ";".join(probable)
    evaluate(f"run={run.as_posix()}", f"predict={tmp_path.as_posix()}/photos")
    with (run / "eval/best/predictions_photos.csv").open(newline="", encoding="utf-8") as file:
        predicted = {row["sample"]: row["prediction"] for row in csv.DictReader(file)}
    assert len(predicted) == 40
    assert {row["sample"]: row["prediction"] for row in rows}.items() <= predicted.items()


def test_labels_that_are_combinations_are_said(build, photos, tmp_path, caplog):
    combinations = [photos[1]] + [f"data.{share}_share=0.3" for share in ("val", "test")]
    text = (tmp_path / "labels.csv").read_text(encoding="utf-8")
    (tmp_path / "labels.csv").write_text(re.sub("(?m),(sea)?$", ",sea;tree", text), encoding="utf-8")
    build(tmp_path / "photos", *combinations)
    assert [each for each in caplog.messages if "+experiment=several_labels" in each]
