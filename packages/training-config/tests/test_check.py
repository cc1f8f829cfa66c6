import sys

import pytest
from omegaconf import OmegaConf
from training_config import check
from training_config.check import check_config
from training_config.errors import ConfigError

LINEAR = {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 1}


def problems(**config) -> list[str]:
    """The lines in which a config is refused; none if it is not."""
    try:
        check_config(OmegaConf.create(config))
    except ConfigError as error:
        return str(error).splitlines()
    return []


def test_config_that_fits_passes():
    assert problems(layer=LINEAR, layers=[LINEAR], size="${layer.in_features}", nothing=None) == []


@pytest.mark.parametrize(
    ("override", "refused"),
    [
        ("+optimzer=sgd", True),
        ("+optimiser.lr=0.1", True),
        ("+optimiser={lr:0.1,b:2}", True),
        ("+model.net.freeze=[stage1]", False),
        ("+model.extra={a:1}", False),
        ("+notes=3", False),
    ],
)
def test_new_key_beside_one_of_almost_the_same_name_is_refused(monkeypatch, override, refused):
    monkeypatch.setattr(check, "task_overrides", lambda: [override])
    key, _, value = override.lstrip("+").partition("=")
    cfg = OmegaConf.create({"mode": "max", "model": {"net": {"width": 1}}, "optimizer": {"lr": 1.0}})
    OmegaConf.update(cfg, key, OmegaConf.create(f"v: {value.replace(':', ': ')}").v, force_add=True)
    assert bool(check.misspelt(cfg)) == refused


def test_missing_value_is_named_with_the_way_to_give_it():
    assert problems(net={"depth": "???"}) == ["net.depth=??? must be given a value: add net.depth=... to the command"]


def test_interpolation_that_leads_nowhere_is_named():
    [line] = problems(net={"width": "${nowhere}"})
    assert line.startswith("net.width=${nowhere} does not resolve:")
    assert "nowhere" in line.partition("resolve:")[2]


def test_sentence_of_a_resolver_stands_alone():
    def refuse(folder):
        raise ConfigError(f"data.folder={folder} is no folder")

    OmegaConf.register_new_resolver("refuse", refuse, replace=True)
    assert problems(net={"names": "${refuse:here}"}) == ["data.folder=here is no folder"]


def test_unknown_argument_is_named_with_the_nearest_one():
    [line] = problems(layer=LINEAR | {"biass": True})
    assert line == "layer.biass is not an argument of torch.nn.Linear; did you mean bias?"


def test_unknown_argument_unlike_all_others_is_named_with_all_of_them():
    [line] = problems(layer=LINEAR | {"zzz": True})
    assert "layer.zzz is not an argument of torch.nn.Linear; it takes in_features, out_features, bias" in line


def test_lacking_argument_is_named():
    [line] = problems(layer={"_target_": "torch.nn.Linear", "in_features": 2})
    assert line == "layer lacks out_features of torch.nn.Linear"


def test_arguments_by_position_count():
    assert problems(layer={"_target_": "torch.nn.Linear", "_args_": [2, 1]}) == []


def test_arguments_that_the_target_collects_are_its_own_business():
    assert problems(table={"_target_": "collections.OrderedDict", "anything": 1}) == []


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("torch.nn.Linaer", "torch.nn has no 'Linaer'; did you mean Linear"),
        ("torch.optm.Adam", "torch has no 'optm'; did you mean optim?"),
        ("torch.nn.Linear.forwards", "torch.nn.Linear has no 'forwards'; did you mean forward"),
        ("tortch.nn.Linear", "there is no module 'tortch'; is it installed?"),
    ],
)
def test_target_that_does_not_exist_is_named_with_the_nearest_one(target, reason):
    [line] = problems(layer={"_target_": target})
    assert line.startswith(f"layer._target_={target} cannot be imported: {reason}")


def test_module_that_cannot_import_another_names_the_other(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import the_other\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    [line] = problems(net={"_target_": "needs_another.Net"})
    why = "importing needs_another fails: No module named 'the_other'"
    assert line == f"net._target_=needs_another.Net cannot be imported: {why}"
    assert "needs_another" not in sys.modules


def test_optimizer_that_is_not_partial_is_named_with_the_fix():
    [line] = problems(optimizer={"_target_": "torch.optim.Adam", "lr": 0.1})
    expected = "optimizer lacks params of torch.optim.Adam; add optimizer._partial_=true: the model supplies it"
    assert line == expected


def test_partial_may_lack_arguments_but_have_no_unknown_ones():
    adam = {"_target_": "torch.optim.Adam", "_partial_": True}
    assert problems(optimizer=adam) == []
    [line] = problems(optimizer=adam | {"weight_decays": 0.1})
    assert line.startswith("optimizer.weight_decays is not an argument of torch.optim.Adam; did you mean weight_decay")


@pytest.mark.parametrize("target", ["???", "${nowhere}", None, "", 5, "torch.nn", "torch.pi"])
def test_target_that_is_nothing_to_call_is_named(target):
    lines = problems(layer={"_target_": target})
    assert lines
    assert all(line.startswith("layer._target_=") for line in lines)


def test_all_problems_are_reported_together():
    lines = problems(
        depth="???",
        width="${nowhere}",
        layer=LINEAR | {"biass": True},
        layers=[LINEAR, {"_target_": "torch.nn.Linaer"}],
        optimizer={"_target_": "torch.optim.Adam"},
    )
    # One line a problem, each with its key first.
    starts = ["depth=???", "width=${nowhere}", "layer.biass ", "layers.1._target_=", "optimizer lacks params"]
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


@pytest.mark.parametrize("target", ["os.system", "builtins.eval", "subprocess.run", "shutil.rmtree", "posix.system"])
def test_target_that_hydra_blocks_is_refused_before_it_is_imported(target):
    [line] = problems(layer={"_target_": target})
    assert line == f"layer._target_={target} is refused: what a config builds must not run or delete what it likes"


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("in_features", "many", "a whole number"),
        ("in_features", 2.5, "a whole number"),
        ("in_features", True, "a whole number"),
        ("in_features", None, "a whole number"),
        ("bias", "yes", "true or false"),
    ],
)
def test_value_of_another_type_than_annotated_is_named(argument, value, wanted):
    [line] = problems(layer=LINEAR | {argument: value})
    shown = "null" if value is None else value
    assert line == f"layer.{argument}={shown} must be {wanted}"


def test_value_of_which_the_annotation_tells_nothing_for_sure_is_left_alone():
    assert (
        problems(layer=LINEAR | {"device": "cpu"}, pool={"_target_": "torch.nn.MaxPool2d", "kernel_size": [2, 2]}) == []
    )
