# `make` lists the targets. Everything runs in .venv, which `make setup` makes from pyproject.toml.

PYTHON ?= python3
BIN    := .venv/bin/
RUN    := $(BIN)python -m rationale.runs
CORES  ?= 2

help:        ## list the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: .venv/ready   ## make .venv with everything installed (PYTHON=..., PIP_FLAGS=...)

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is %s; try make setup PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)python -m pip install --quiet $(PIP_FLAGS) --constraint constraints.txt --editable '.[data,fast,notebooks,baselines,generation,attributions,pretrained,tensorboard,batch,book,dev]'
	@touch $@

demo: setup  ## first rationales, on made-up reviews: no download, a minute once installed
	@$(RUN) 10_first_rationale params/demo.yaml --again-if-changed

test: setup  ## lint, floors, types, and the tests that take minutes: every notebook, small, without a kernel
	$(BIN)ruff check . && $(BIN)ruff format --check --quiet rationale tests tools
	$(BIN)lint-imports --no-cache
	@report=$$(mktemp); $(BIN)mypy > $$report 2>&1 & types=$$!; \
		OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES); tests=$$?; \
		wait $$types; types=$$?; cat $$report; rm $$report; exit $$((tests ? tests : types))

test-slow: setup ## the tests that `make test` leaves out: notebooks in kernels, student editions, Snakemake, timings
	OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES) -m slow

test-all: test test-slow test-browser ## every test there is

test-browser: .venv/browser .venv/explore ## notebooks and explorers in JupyterLab, with mouse and keyboard (needs chromium)
	$(BIN)python -m pytest -m browser

.venv/browser: .venv/ready
	$(BIN)python -m pip install --quiet $(PIP_FLAGS) --constraint constraints.txt --editable '.[browser]'
	@touch $@

lab: setup   ## JupyterLab, text notebooks open as notebooks
	JUPYTER_CONFIG_PATH=jupyter $(BIN)jupyter lab --notebook-dir=. $(LAB_FLAGS)

explore: .venv/explore ## the explorers as a page in the browser: sliders, your own sentence
	@mkdir -p outputs/08_explorers && $(BIN)jupytext --quiet --to ipynb --output outputs/08_explorers/page.ipynb notebooks/08_explorers.py
	$(BIN)voila outputs/08_explorers/page.ipynb --Voila.ip=127.0.0.1 \
		--VoilaConfiguration.extension_denylist=jupyterlab-jupytext $(VOILA_FLAGS)

.venv/explore: .venv/ready
	$(BIN)python -m pip install --quiet $(PIP_FLAGS) --constraint constraints.txt --editable '.[explore]'
	@touch $@

run: setup   ## one run: make run NOTEBOOK=12_train_sst PARAMS="params/sst/hardkuma.yaml selection=0.4 vectors=glove.6B.50d seed=2"
	@$(RUN) $(NOTEBOOK) $(PARAMS)

sweep: setup ## many runs, then their comparison: make sweep SWEEP=sst_hardkuma
	@$(BIN)python -m rationale.sweeps $(SWEEP)
	@$(BIN)snakemake --config sweep=$(SWEEP) --unlock --quiet all
	$(BIN)snakemake --config sweep=$(SWEEP) --cores $(CORES)

book: setup  ## all notebooks, executed, and the reference as one web site: outputs/book/index.html
	@OMP_NUM_THREADS=1 $(BIN)python -m tools.book

handout: setup ## notebooks without the answers and with them: outputs/handout/student, outputs/handout/teacher
	@$(BIN)python -m tools.handout

bench: setup ## how fast the package is
	$(BIN)python -m tests.benchmarks

reference: setup ## the committed results, from finished runs
	$(BIN)python -m tools.collect

clean:       ## remove .venv and caches; outputs/ stays
	rm -rf .venv .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info build

.PHONY: help setup demo test test-slow test-all test-browser lab explore run sweep book handout bench reference clean
