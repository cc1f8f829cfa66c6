#!/usr/bin/env bash
# Writes every lock file: one a choice of logger for the project, and this repository's own.
# PATH=.venv/test/bin:$PATH requirements/lock.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {
  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@"
}

for logger in tensorboard csv wandb mlflow; do
  # CI=none and the oldest Python: neither changes what is locked.
  cookiecutter --no-input --output-dir "$work/$logger" . logger="$logger" python_version=3.11 >/dev/null
  lock="$PWD/{{cookiecutter.project}}/locks/${logger/tensorboard/base}.lock"
  (cd "$work/$logger"/*/ && compile --extra dev --emit-find-links pyproject.toml --output-file "$lock")
done
compile requirements/tools.in --output-file requirements/tools.txt
# The libraries are tested where they lie.
compile requirements/test.in --no-emit-package training-config --no-emit-package training-runs \
  --no-emit-package training-checklist --extra dev --extra wandb --extra mlflow --extra joblib --extra submitit --extra ray --extra optuna --extra onnx --extra shards \
  --find-links '{{cookiecutter.project}}/wheels' "$work"/tensorboard/*/pyproject.toml \
  --output-file requirements/test.txt
compile --no-emit-package dill --no-emit-package multiprocess benchmarks/adoption/requirements.in \
  --output-file benchmarks/adoption/requirements.txt
for extra in dill multiprocess; do
  echo "$extra" >"$work/$extra.in"
  compile --no-deps "$work/$extra.in" --output-file "benchmarks/adoption/extras/$extra.txt"
done
# Hydra's release candidate and what goes with it, in the place of what test.txt has: tried every week.
compile --no-deps --prerelease=allow requirements/hydra-candidate.in --output-file requirements/hydra-candidate.txt
# What installs the packages of the tests, in the version that is among them.
sed -n '/^uv==/,$p' requirements/test.txt | awk 'NR > 1 && /^[a-z]/ { exit } { print }' >requirements/uv.txt
