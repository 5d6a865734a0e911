# `make` lists the targets. Everything runs in .venv, which `make setup` makes from pyproject.toml.

PYTHON ?= python3
BIN    := .venv/bin/
RUN    := $(BIN)python -m rationale.runs
unexport PYTHONDONTWRITEBYTECODE# with it, each of the processes that the tests start would compile all that it imports
CORES  ?= 2
BROWSER_TESTS ?= browser
PINS    = .venv/pins.txt# constraints.txt without the hashes, with which pip would refuse to install this folder
NAME_IT = import os, re, sys; stem = os.path.splitext(os.path.basename(os.environ.get("DATA", "").rstrip("/")))[0]; \
	print(re.sub(r"[^\w.+]+", "-", " ".join([stem or "made-up", *(item for item in sys.argv[1:] if item[0] != "-")]).replace("=", "")).strip("-"))
# A module is compiled when it is first imported, and of 22,000 installed ones most never are. Where Python may not write
# what it compiles, as in many containers, all are compiled here, once, for whoever calls .venv/bin/python without make.
LAZILY  = $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
# The warning is about how setuptools installs this folder, and asks for nothing.
PIP     = PYTHONWARNINGS=ignore::UserWarning $(BIN)python -m pip install --quiet $(LAZILY) $(PIP_FLAGS)
INSTALL = $(PIP) --constraint $(PINS) --editable

# make ignores a variable that nothing uses, so that with LABELS=stars or seed=2 another model would be trained than was meant.
KNOWN  := PYTHON PIP_FLAGS VERIFY BIN CORES BROWSER_TESTS NOTEBOOK PARAMS DATA TEXT LABEL OWN_NAME SWEEP SWEEP_FLAGS LAB_FLAGS \
	VOILA_FLAGS LOCK_FLAGS
GIVEN  := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
UNUSED := $(firstword $(filter-out $(KNOWN) SHELL MAKEFLAGS,$(GIVEN)))
ifneq ($(UNUSED),)
$(error $(UNUSED): no target uses this variable, accepted are $(KNOWN). \
A parameter of a run stands in PARAMS, as in PARAMS="selection=0.1 seed=2")
endif

help:        ## list the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: .venv/ready   ## make .venv with everything installed (PYTHON=..., PIP_FLAGS=...; VERIFY=1 checks the hash of every package)

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is %s; try make setup PYTHON=python3.12" % sys.version.split()[0])'
	@if [ -L .venv ]; then \
		echo "error: .venv is a link (to $$(readlink .venv)), in which make sets up nothing; remove it, then make setup makes the folder" >&2; \
		exit 1; \
	fi
	@echo 'setting up .venv: several gigabytes, a few minutes'
	$(PYTHON) -m venv .venv
	sed -e '/^ *--hash/d' -e 's/ *\\$$//' constraints.txt > $(PINS)
ifdef VERIFY
	$(PIP) --require-hashes --requirement constraints.txt
	$(PIP) --no-deps --no-build-isolation --editable .
else
	-@$(PIP) --upgrade --constraint $(PINS) pip # that of Python 3.11 takes four times as long to choose and to install
	$(INSTALL) '.[data,fast,notebooks,baselines,generation,attributions,pretrained,texts,onnx,tensorboard,batch,slurm,book,dev]'
endif
	@touch $@
	@echo '.venv is ready'

demo: setup  ## first rationales, on made-up reviews: no download, a minute once installed
	@$(RUN) 10_first_rationale params/demo.yaml --again-if-changed

test: setup  ## lint, floors, types, and the tests that take minutes: every notebook, small, without a kernel
	$(BIN)ruff check . && $(BIN)ruff format --check --quiet rationale tests tools
	$(BIN)lint-imports --no-cache
	@report=$$(mktemp); $(BIN)mypy > $$report 2>&1 & types=$$!; \
		OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES); tests=$$?; \
		wait $$types; types=$$?; cat $$report; rm $$report; exit $$((tests ? tests : types))

test-slow: setup ## one or two of each kind of test that takes long: notebooks in kernels, Snakemake, kills, exports
	OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES) -m slow $$(grep -lE "mark\.slow|slow_or_deep\(" tests/test_*.py)

test-gpu: setup ## the tests that a GPU can fail: one line where there is none
	$(BIN)python -m pytest -m gpu tests/test_gpu.py tests/test_mappings.py tests/test_notebooks_on_a_gpu.py

bench-gpu: setup ## a GPU beside the CPU: training steps, graphs, bfloat16, memory; one line where there is none
	$(BIN)python -m tests.benchmarks.gpu --json outputs/reference/bench_gpu.json

test-deep: setup ## all others of these kinds, and the book: an hour or two
	OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES) --dist loadfile -m "deep and not browser"

fuzz: setup  ## 500 fresh random damages of each file format, and 1,500 of a parameter file: others each time
	FUZZ=1 OMP_NUM_THREADS=1 $(BIN)python -m pytest -n $(CORES) -m deep tests/test_damage.py -k random

test-all: test test-slow test-deep fuzz test-browser ## every test there is

test-browser: .venv/browser .venv/explore ## notebooks and explorers in JupyterLab, with mouse and keyboard (needs chromium)
	$(BIN)python -m pytest -m "$(BROWSER_TESTS)" $(wildcard tests/test_*browser.py)

.venv/browser: .venv/ready
	$(INSTALL) '.[browser]'
	@touch $@

lab: setup   ## JupyterLab, text notebooks open as notebooks
	JUPYTER_CONFIG_PATH=jupyter $(BIN)jupyter lab --notebook-dir=. $(LAB_FLAGS)

explore: .venv/explore ## the explorers as a page in the browser: sliders, your own sentence
	@mkdir -p outputs/50_explorers && $(BIN)jupytext --quiet --to ipynb --output outputs/50_explorers/rationale.ipynb notebooks/50_explorers.py
	$(BIN)python $(dir $(firstword $(MAKEFILE_LIST)))tools/explore.py outputs/50_explorers/rationale.ipynb $(VOILA_FLAGS)

.venv/explore: .venv/ready
	$(INSTALL) '.[explore]'
	@touch $@

run: export FLAGS_IN_MAKE = with make, a flag stands in PARAMS: make run NOTEBOOK=... PARAMS="... --again"
run: setup   ## one run: make run NOTEBOOK=12_train_sst PARAMS="params/sst/hardkuma.yaml selection=0.4 vectors=glove.6B.50d seed=2"
	@$(RUN) $${NOTEBOOK:+"$$NOTEBOOK"} $(PARAMS)

own: export FLAGS_IN_MAKE = with make: PARAMS=--again; OWN_NAME=another in place of --name
own: setup   ## a model of your own texts: make own DATA=reviews.csv TEXT=body LABEL=stars (PARAMS="selection=0.1 seed=2", OWN_NAME=second)
	@[ -n "$$DATA" ] || [ -z "$$TEXT$$LABEL" ] || { echo "TEXT and LABEL are columns of a file, give it too: make own DATA=reviews.csv TEXT=body LABEL=stars" >&2; exit 2; }
	@name=$${OWN_NAME:-$$($(BIN)python -c '$(NAME_IT)' $(notdir $(PARAMS)))}; \
	$(RUN) 17_train_own_texts $${DATA:+"corpus=$$DATA"} $${TEXT:+"text=$$TEXT"} $${LABEL:+"label=$$LABEL"} \
		$(PARAMS) --name "$$name"

twins: setup ## the notebooks as .ipynb files for plain papermill: outputs/twins/
	@$(BIN)python -m tools.twins

sweep: setup ## many runs, then their comparison: make sweep SWEEP=sst_hardkuma (CORES=4, SWEEP_FLAGS="--quiet --snakemake")
	@$(BIN)python -m rationale.sweeps $${SWEEP:+"$$SWEEP"} --run --jobs $(CORES) $(SWEEP_FLAGS)

book: setup  ## all notebooks, executed, and the reference as one web site: outputs/book/index.html
	@OMP_NUM_THREADS=1 $(BIN)python -m tools.book

handout: setup ## notebooks without the answers and with them: outputs/handout/student, .../teacher (NOTEBOOK=... of one alone)
	@$(BIN)python -m tools.handout $${NOTEBOOK:+--notebook "$$NOTEBOOK"}

slides: setup ## five slides with notes for each meeting of a reading group: outputs/slides/index.html
	@OMP_NUM_THREADS=1 $(BIN)python -m tools.slides

bench: setup ## how fast the package is: about a quarter of an hour; it says first how long the last one took
	$(BIN)python -m tests.benchmarks

speed: setup ## the same, on an idle machine, for the section Speed of RESULTS.md
	$(BIN)python -m tests.benchmarks --json outputs/reference/bench.json
	$(BIN)python -m tools.speed

reference: setup ## the committed results, from finished runs
	$(BIN)python -m tools.collect

lock: .venv/lock ## constraints.txt, with a hash for every package, from pyproject.toml (LOCK_FLAGS=--upgrade for newer versions)
	$(BIN)uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-annotate --custom-compile-command "make lock" --output-file constraints.txt $(LOCK_FLAGS)

audit: .venv/lock ## known vulnerabilities of the packages in constraints.txt
	$(BIN)python -m tools.audit

.venv/lock: .venv/ready
	$(INSTALL) '.[lock]'
	@touch $@

clean:       ## remove .venv and caches; outputs/ stays
	rm -rf .venv .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info build

.PHONY: help setup demo test test-slow test-gpu bench-gpu test-deep test-all test-browser lab explore run own twins sweep book handout slides bench speed reference lock audit clean
