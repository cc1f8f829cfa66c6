#!/usr/bin/env bash
# Settles in bounded time what only a machine with a GPU can settle about this template; writes RESULTS.md beside this.
#
#   benchmarks/gpu/run.sh prepare          where a package index answers: small wheels into .wheels, for a machine without
#   benchmarks/gpu/run.sh                  every part that is not done yet, within 540 seconds; call it again for the rest
#   benchmarks/gpu/run.sh --device cpu     a rehearsal without a GPU: all the commands, none of the verdicts
#   benchmarks/gpu/run.sh --help           parts, budgets and folders
#
# It installs nothing over a network: torch and all else that is there is used, only what is missing comes from .wheels.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1
if [ "${1:-}" = prepare ]; then
  shift
  exec "$python" "$here/wheels.py" download "$@"
fi
site=${TMPDIR:-/tmp}/gpu-site
"$python" "$here/wheels.py" install --site "$site"
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" "$here/main.py" "$@"
