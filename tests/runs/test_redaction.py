from training_runs.records.redaction import redact_file

SECRET = "5ecret-0123456789"


def test_file_without_secrets_is_not_touched(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("seed: 0   # a comment\n", encoding="utf-8")
    redact_file(path)
    assert path.read_text(encoding="utf-8") == "seed: 0   # a comment\n"


def test_secret_in_a_file_is_replaced_and_no_draft_is_left(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data:\n  token: " + SECRET + "\n  seed: ${seed}\nseed: 0\n", encoding="utf-8")
    redact_file(path)
    assert path.read_text(encoding="utf-8") == "data:\n  token: ${oc.env:DATA_TOKEN}\n  seed: ${seed}\nseed: 0\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]
