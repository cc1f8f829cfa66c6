import json

import pytest
from in_project import TEMPLATE
from training_config.schema import node_schema, type_schema, write_schemas

# The names of the project's files; what is in them is read where the project is.
CONF = TEMPLATE / "conf"
FILES = sorted(path.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml"))
SGD = "torch.optim.SGD"


@pytest.fixture(scope="module")
def schema(root, tmp_path_factory):
    """`schema(group)`: what make schema writes for it."""
    folder = tmp_path_factory.mktemp("schemas")
    write_schemas(root / "conf", "train", folder)
    return lambda group: json.loads((folder / f"{group}.json").read_text(encoding="utf-8"))


def arguments(schema: dict, target: str) -> dict:
    [case] = [
        case["then"] for case in schema["allOf"] if case["if"].get("properties") == {"_target_": {"const": target}}
    ]
    return case


def test_target_is_completed_with_those_of_its_group(schema):
    known = schema("optimizer")["properties"]["_target_"]["anyOf"][0]["enum"]
    assert {"torch.optim.Adam", "torch.optim.AdamW", SGD} <= set(known)


def test_arguments_are_those_of_the_target_with_type_default_and_description(schema):
    nesterov = arguments(schema("optimizer"), SGD)["properties"]["nesterov"]
    assert nesterov["anyOf"][0] == {"type": "boolean"}
    assert nesterov["default"] is False
    assert "Nesterov" in nesterov["description"]


def test_argument_that_the_target_has_not_is_an_error(schema):
    names = arguments(schema("optimizer"), SGD)["propertyNames"]["enum"]
    assert {"momentum", "_partial_", "defaults"} <= set(names)
    assert not {"betas", "momentun"} & set(names)


def test_file_that_leaves_the_target_to_its_defaults_has_the_arguments_of_any_in_its_group(schema):
    [case] = [case["then"] for case in schema("trainer")["allOf"] if "not" in case["if"]]
    assert {"max_epochs", "precision", "strategy"} <= set(case["propertyNames"]["enum"])


def test_parts_below_a_group_have_their_own_arguments(schema):
    assert "patience" in json.dumps(schema("callbacks")["properties"]["early_stopping"])
    assert "dropout" in json.dumps(schema("model")["properties"]["net"])


def test_keys_of_the_whole_config_lead_to_the_groups(schema):
    keys = schema("train")["properties"]
    assert keys["optimizer"] == {"$ref": "optimizer.json"}
    assert keys["monitor"]["description"].startswith("what the best checkpoint")


def test_target_that_takes_any_argument_closes_nothing():
    assert arguments(node_schema({(): {"builtins.dict"}}), "builtins.dict") == {}


def test_interpolation_may_stand_for_any_type():
    number, text = type_schema(float)["anyOf"]
    assert number == {"type": "number"}
    assert text["pattern"].startswith(r"\$\{")


@pytest.mark.parametrize("name", FILES)
def test_file_names_a_schema_that_is_written(root, name, schema):
    path = root / "conf" / name
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "$schema=" in line]
    for line in lines:
        target = path.parent / line.partition("$schema=")[2]
        assert target.resolve().parent == root / "schemas"
        assert schema(target.stem)["properties"]
    groups = ("debug", "hydra", "launcher", "sweep", "eval.yaml")
    assert bool(lines) == (name.partition("/")[0] not in groups)
