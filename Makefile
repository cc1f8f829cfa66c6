# make demo      generate a project, install it, train it, evaluate it; needs python3, git and a package index
# make test      what this repository promises, in 12 to 14 minutes on two slow cores
# make test-all  the long tests too: what starts many processes, other environments, the documentation's every command
PYTHON ?= python3
PIP := -m pip install --disable-pip-version-check --require-hashes
DEMO := demo/digit-classifier
PYTHON_CODE := --config pyproject.toml benchmarks conftest.py docs hooks packages requirements tests

.PHONY: demo test test-all lint format wheels pages rules lock

demo: .venv/tools/installed
	.venv/tools/bin/cookiecutter --no-input --overwrite-if-exists --output-dir demo .
	$(MAKE) --directory $(DEMO) install PYTHON=$(PYTHON)
	cd $(DEMO) && .venv/bin/python train.py data=mnist_sample +experiment=baseline
	cd $(DEMO) && .venv/bin/python eval.py run=last
	@echo
	@echo "Go on with:"
	@echo "  cd $(DEMO) && source .venv/bin/activate"
	@echo "  python train.py optimizer=sgd optimizer.lr=0.02    other options and values; python train.py --help lists them"
	@echo "  python train.py -m model=cnn,mlp seed=0,1          a sweep"
	@echo "  python eval.py predict=<folder>                    classify images of your own"
	@echo "  tensorboard --logdir outputs                       look at the runs"

test: .venv/test/installed
	.venv/test/bin/python -m pytest --numprocesses auto --dist loadfile -m "not slow"

test-all: .venv/test/installed
	.venv/test/bin/python -m pytest --numprocesses auto --dist loadfile

lint: .venv/test/installed
	.venv/test/bin/python -m ruff check $(PYTHON_CODE)
	.venv/test/bin/python -m ruff format --check $(PYTHON_CODE)

# Lets ruff fix a generated project and carries the result back into the template.
format: .venv/test/installed
	.venv/test/bin/python -m ruff check --fix $(PYTHON_CODE)
	.venv/test/bin/python -m ruff format $(PYTHON_CODE)
	.venv/test/bin/python requirements/format_template.py

# The libraries of packages/, into the wheels that every project carries; after each change of one.
wheels: .venv/test/installed
	.venv/test/bin/python packages/wheels.py

# All rules of the checklist on one page, packages/training-checklist/docs/rules.md; not tracked.
rules: .venv/test/installed
	PYTHONPATH=packages/training-config/src:packages/training-checklist/src .venv/test/bin/python \
	  -m training_checklist pages >packages/training-checklist/docs/rules.md

# What the examples of docs/debug print, into their pages.
pages: .venv/test/installed
	.venv/test/bin/python -m pytest tests/test_debug_pages.py --update-pages

# Every lock file anew, with the newest versions that the ranges allow.
lock: .venv/test/installed
	PATH=$(CURDIR)/.venv/test/bin:$$PATH requirements/lock.sh

.venv/tools/installed: requirements/tools.txt
	$(PYTHON) -m venv .venv/tools
	.venv/tools/bin/python $(PIP) -r $<
	touch $@

# uv installs these two hundred packages in a third of pip's time; pip, where only that knows the package index.
.venv/test/installed: requirements/test.txt requirements/uv.txt
	$(PYTHON) -m venv .venv/test
	.venv/test/bin/python $(PIP) -r requirements/uv.txt
	.venv/test/bin/uv pip install --quiet --require-hashes --compile-bytecode --python .venv/test/bin/python -r $< \
	  || .venv/test/bin/python $(PIP) -r $<
	touch $@
