"""Bad command lines, odd files and odd environments, as data for tests/test_hostile.py and for the page ROBUSTNESS.md.

In an argument, `{place}` is a folder with the files of `furnish`, `{run}` a finished run, `{sweep}` the folder of
sweeps. Each command line is refused in one line with exit code 2, except those in `ACCEPTED`.
"""

import contextlib
import os
import shutil
import socket
from pathlib import Path

LONG = "x" * 5000
HEADER = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---
"""
CELL = '\n# %% tags=["parameters"]\nseed: int = 1  # seed\nselection: float = 0.4  # share\n'
WORK = """
# %%
from rationale.runs import results_folder

# %%
(results_folder("x") / "metrics.json").write_text("{}")
"""
PLAIN = HEADER + CELL + WORK
NOTEBOOKS: dict[str, bytes] = {  # files of notebooks: name -> content
    "good": PLAIN.encode(),
    "empty": b"",
    "with_mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "with_returns": PLAIN.replace("\n", "\r\n").encode(),
    "utf16": PLAIN.encode("utf-16"),
    "latin1": (PLAIN + "# caf\u00e9\n").encode("latin-1"),
    "with_nul": PLAIN.encode() + b"\x00\n",
    "no_cell": (HEADER + WORK).encode(),
    "two_cells": (PLAIN + CELL).encode(),
    "no_header": (CELL + WORK).encode(),
    "bad_header": (PLAIN.replace("jupyter:", "jupyter: [")).encode(),
    "header_of_a_list": PLAIN.replace("# jupyter:", "# - jupyter:").encode(),
    "other_kernel": PLAIN.replace("language: python", "language: R").replace("name: python3", "name: ir").encode(),
    "bad_parameters": PLAIN.replace("seed: int = 1", "seed: int = = 1").encode(),
    "code_in_parameters": PLAIN.replace("seed: int = 1", "seed: int = exit()").encode(),
    "no_annotation": PLAIN.replace("seed: int = 1", "seed = 1").encode(),
    "wrong_default": PLAIN.replace("seed: int = 1", 'seed: int = "a"').encode(),
    "bad_syntax": (PLAIN + "\n# %%\ndef (:\n").encode(),
    "brackets": (PLAIN + "\n# %%\n" + "(" * 3000 + "\n").encode(),
    "unknown_class": (PLAIN + "\n# %%\np = validated(globals(), NoSuchSettings)\n").encode(),
    "no_work": (HEADER + CELL).encode(),
    "exits": (PLAIN + "\n# %%\nraise SystemExit(0)\n").encode(),
    "interrupts": (PLAIN + "\n# %%\nraise KeyboardInterrupt\n").encode(),
    "list_of_metrics": PLAIN.replace('"{}"', '"[1, 2]"').encode(),
    "metrics_of_texts": PLAIN.replace('"{}"', r'"{\"dev\": {\"\\u001b[31m\": \"\\u001b[31m\"}}"').encode(),
    "removes_its_folder": (PLAIN + '\n# %%\nimport shutil\n\n# %%\nshutil.rmtree(results_folder("x"))\n').encode(),
    "writes_its_marks": (PLAIN + '\n# %%\n(results_folder("x") / "run.ipynb").mkdir()\n').encode(),
}
SWEEPS: dict[str, bytes] = {
    name: text.replace("NOTEBOOK", "{place}/good.py").encode()
    for name, text in {
        "good": "notebook: NOTEBOOK\nruns: [a.yaml]\n",
        "a_file_that_is_not_there": "notebook: NOTEBOOK\nruns: [nothing.yaml]\n",
        "a_file_with_a_long_name": "notebook: NOTEBOOK\nruns: [" + "x" * 5000 + "]\n",
        "a_file_of_a_long_folder": "notebook: NOTEBOOK\nruns: [" + "x" * 5000 + "/a.yaml]\n",
        "a_folder_as_a_file": "notebook: NOTEBOOK\nruns: [sweeps]\n",
        "two_files_of_one_name": "notebook: NOTEBOOK\nruns: [a.yaml, ../params/a.yaml]\n",
        "seeds_with_a_value_twice": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [1, 1]\n",
        "a_comparison_of_other_runs": "notebook: 10_first_rationale\nruns: [seed=2]\nthen: 31_selection_rates\n",
        "no_runs": "notebook: NOTEBOOK\nruns: []\n",
        "mapping_of_runs": "notebook: NOTEBOOK\nruns: {a.yaml: 1}\n",
        "null_runs": "notebook: NOTEBOOK\nruns: null\n",
        "no_notebook": "runs: [a.yaml]\n",
        "notebook_is_a_number": "notebook: 5\nruns: [a.yaml]\n",
        "notebook_is_a_list": "notebook: [a]\nruns: [a.yaml]\n",
        "unknown_notebook": "notebook: nowhere\nruns: [a.yaml]\n",
        "a_folder_of_a_notebook": "notebook: {place}/folder.py\nruns: [a.yaml]\n",
        "empty_grid": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {}\n",
        "grid_is_a_list": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: [1]\n",
        "grid_of_nothing": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {seed: []}\n",
        "grid_of_null": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {seed: [null]}\n",
        "grid_of_numbers_as_names": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {1: [1]}\n",
        "grid_of_grids": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {seed: [{a: 1}]}\n",
        "grid_of_an_unknown_name": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {sed: [1]}\n",
        "grid_with_a_value_twice": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {seed: [1, 1]}\n",
        "grid_with_equal_values": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {selection: [0.5, 0.50]}\n",
        "grid_out_of_range": "notebook: NOTEBOOK\nruns: [a.yaml]\ngrid: {selection: [0.5, 7]}\n",
        "grid_of_millions": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: ["
        + ", ".join(map(str, range(1, 2001))) + "]\ngrid: {selection: ["
        + ", ".join(f"0.{i:04}" for i in range(1, 2001)) + "]}\n",
        "seeds_twice": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [1, 1]\n",
        "seeds_of_texts": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [a]\n",
        "seeds_negative": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [-1]\n",
        "seeds_of_truths": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [true]\n",
        "seeds_too_large": "notebook: NOTEBOOK\nruns: [a.yaml]\nseeds: [99999999999]\n",
        "seed_also_in_a_run": "notebook: NOTEBOOK\nruns: [a.yaml seed=3]\nseeds: [1]\n",
        "a_run_twice": "notebook: NOTEBOOK\nruns: [a.yaml, a.yaml]\n",
        "an_empty_run": "notebook: NOTEBOOK\nruns: ['']\n",
        "a_blank_run": "notebook: NOTEBOOK\nruns: [' ']\n",
        "a_run_without_a_file": "notebook: NOTEBOOK\nruns: [nowhere.yaml]\n",
        "a_run_that_is_a_folder": "notebook: NOTEBOOK\nruns: ['..']\n",
        "a_run_with_a_long_name": f"notebook: NOTEBOOK\nruns: [{LONG}.yaml]\n",
        "a_run_with_a_very_long_override": f"notebook: NOTEBOOK\nruns: [seed=1{'0' * 300}]\n",
        "a_run_with_a_nul": 'notebook: NOTEBOOK\nruns: ["a\\0.yaml"]\n',
        "a_run_with_an_escape": 'notebook: NOTEBOOK\nruns: ["\\e[31m.yaml"]\n',
        "a_run_of_itself": "notebook: NOTEBOOK\nruns: [sweeps/a_run_of_itself.yaml]\n",
        "an_unknown_key": "notebook: NOTEBOOK\nruns: [a.yaml]\nrun: [a.yaml]\n",
        "then_nowhere": "notebook: NOTEBOOK\nruns: [a.yaml]\nthen: nowhere\n",
        "then_a_notebook_without_runs": "notebook: NOTEBOOK\nruns: [a.yaml]\nthen: NOTEBOOK\n",
        "then_params_without_then": "notebook: NOTEBOOK\nruns: [a.yaml]\nthen_params: [seed=2]\n",
        "with_a_mapping": "notebook: NOTEBOOK\nruns: [a.yaml]\nwith: {seed: 1}\n",
        "with_an_unknown_name": "notebook: NOTEBOOK\nruns: [a.yaml]\nwith: [sed=1]\n",
        "with_a_name_twice": "notebook: NOTEBOOK\nruns: [a.yaml seed=1]\nwith: [seed=2]\n",
        "an_alias": "notebook: &a NOTEBOOK\nruns: [*a]\n",
        "two_documents": "notebook: NOTEBOOK\n---\nruns: [a.yaml]\n",
        "empty": "",
        "null": "null\n",
        "a_list": "[a.yaml]\n",
    }.items()
} | {"not_utf8": b"notebook: \xff\n", "zeros": bytes(100), "utf16": "runs: []".encode("utf-16")}  # fmt: skip


def furnish(place: Path) -> None:
    """Fill a folder with notebooks, parameter files, sweeps and with what is none of these."""
    for name, content in NOTEBOOKS.items():
        (place / f"{name}.py").write_bytes(content)
    sweeps = place / "params" / "sweeps"
    sweeps.mkdir(parents=True)
    (place / "params" / "a.yaml").write_text("selection: 0.1\n")
    for name, content in SWEEPS.items():
        (sweeps / f"{name}.yaml").write_bytes(content.replace(b"{place}", str(place).encode()))
    (place / "folder.py").mkdir()
    (place / "folder.yaml").mkdir()
    (place / "empty").mkdir()
    (place / "text").write_text("some text\n")
    (place / "dangling").symlink_to(place / "nothing")
    (place / "dangling.py").symlink_to(place / "nothing.py")
    (place / "dangling.yaml").symlink_to(place / "nothing.yaml")
    (place / "loop").symlink_to(place / "loop")
    (place / "loop.py").symlink_to(place / "loop.py")
    (place / "loop.yaml").symlink_to(place / "loop.yaml")
    for name in ("pipe", "pipe.py", "pipe.yaml", "params/sweeps/pipe.yaml"):  # nothing is ever written into them
        os.mkfifo(place / name)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening, contextlib.chdir(place):
        listening.bind("socket")
    (place / "zero.yaml").symlink_to("/dev/zero")
    (place / "zero.py").symlink_to("/dev/zero")
    with open(os.fsencode(place) + b"/caf\xe9.yaml", "w", encoding="utf-8") as file:  # a name that is not UTF-8
        file.write("seed: 2\n")
    shutil.copyfile(place / "good.py", os.fsencode(place) + b"/caf\xe9.py")


PATHS = ("", " ", ".", "/", "~nobody", "{place}/text", "{place}/nothing", "{place}/empty", "{place}/dangling",
         "{place}/loop", "{place}/text/x", "{place}/pipe", "{place}/socket",
         "/dev/null", "/dev/full", "/dev/full/x", "/proc", "/proc/1/x",
         f"{{place}}/{LONG}", "{place}/\x1b[31m", "{place}/\n", "{place}/\udce9")  # fmt: skip
ODD = ("", " ", "=", "=1", "seed=", "seed", "seed==1", "seed=1=2", " seed=1", "seed =1", "SEED=1", "\u00e9=1",
       "seed=\udcff", "seed=\x1b[31m", "seed=[", "seed={a: 1}", "seed=1e400", "seed=nan", "selection=nan", "seed=true",
       "seed=" + "9" * 5000, "selection=" + "[" * 3000, "x" * 5000 + "=1", "sed=1", "--seed=1", "-1", "seed=1,",
       "seed=-1", "seed=4294967296", "selection=.inf", "seed=&a 1", "seed=!!int 1", "seed=2001-01-01")  # fmt: skip
GOOD = "{place}/good.py"
COMMANDS: dict[str, list[list[str]]] = {
    "rationale.runs": [
        *([path, "--list"] for path in PATHS),
        *([f"{{place}}/{name}.py", "--list"] for name in ("dangling", "loop", "folder", "zero", "pipe")),
        *([f"{{place}}/{name}.py", "--list"] for name in NOTEBOOKS),
        *([GOOD, item] for item in ODD),
        *([GOOD, path] for path in PATHS),
        *([GOOD, f"{{place}}/{name}.yaml"] for name in ("dangling", "loop", "folder", "zero", "pipe", "caf\udce9")),
        *([GOOD, f"--name={name}"] for name in ("", " ", ".", "..", "-", "a/b", "\n", "\x1b", "\udce9", "y" * 201)),
        *([GOOD, f"--name={name}"] for name in ("lab", "x.partial", "x.replaced", "x.replaced.partial", "caf\u00e9 ")),
        *([GOOD, "--outputs", path] for path in PATHS if path not in ("", " ", ".", "/", "~nobody")),
        *([GOOD, "--threads", text] for text in ("0", "-1", "abc", "1.5", "", "1" + "0" * 9)),
        [], ["--again"], [GOOD, "--nonsense"], ["{place}/caf\udce9.py", "--list"], ["{place}/good.ipynb"],
    ],
    "rationale.sweeps": [
        *([path] for path in PATHS),
        *([f"{{sweep}}/{name}.yaml"] for name in SWEEPS if name != "good"),
        *([f"{{place}}/{name}.yaml"] for name in ("dangling", "loop", "folder", "zero", "pipe")), ["{sweep}/pipe.yaml"],
        *(["{sweep}/good.yaml", "--run", "--jobs", text] for text in ("0", "-1", "abc")),
        *(["{sweep}/good.yaml", *options] for options in (("--jobs", "2"), ("--replace",), ("--snakemake",))),
        *(["{sweep}/good.yaml", "--run", "--outputs", path] for path in
          ("/dev/null", "/proc", "{place}/text", "{place}/loop", "/dev/full/x")),
        [], ["../sweeps/tiny"], ["tiny", "tiny"], ["tinny"],
    ],
    "rationale.predict": [
        *([path, "--text", "a"] for path in PATHS),
        *(["{run}", "--file", path] for path in PATHS),
        *(["{run}", "--text", text] for text in ("", " ", "\udce9", "\n", "\u2028", "\ufeff")),
        *(["{run}", "--file", path] for path in ("/dev/zero", "{place}/zero.yaml", "/proc/self/mem")),
        ["{run}", "--text", "a", "--title", "x"], ["{run}", "--text", "a", "--overwrite"],
        ["{run}", "--text", "a", "--html", "--spans"],
        *(["{run}", "--export", "{place}/m.onnx", *options] for options in
          (("--csv",), ("--column", "x"), ("--device", "cpu"))),
        ["{run}", "--text", "a", "--csv", "--keep", "id"], ["{run}", "--file", "{place}/text", "--csv", "--keep", ""],
        ["{run}"], ["{run}", "--text"], ["{run}", "--jsonl"], ["{run}/metrics.json", "--text", "a"], [],
    ],
    "rationale.results": [
        *([path, "--by", "seed", "--metric", "mse"] for path in PATHS),
        *(["{run}", "--by", text, "--metric", "mse"] for text in ("", " ", "sed", "a/b", "\x1b", "run", "metric")),
        *(["{run}", "--by", "seed", "--metric", text] for text in ("", " ", "ms", "a/b", "\x1b", "seed")),
        *(["{run}", "--by", "seed", "--metric", "mse", "--out", path] for path in
          ("/dev/null", "/proc", "{place}/text", "{place}/loop", "/dev/full/x")),
        ["{run}", "--by", "seed"], ["{run}", "--metric", "mse"],
        ["{run}", "--by", "seed", "--metric", "mse", "--split", "x"],
        ["[", "--by", "seed", "--metric", "mse"], ["{place}/**", "--by", "seed", "--metric", "mse"],
    ],
    "rationale.judge": [*([path] for path in PATHS), ["{run}"], ["{run}", "--all"], ["{run}/metrics.json"], []],
    "rationale.data": [
        [], ["nonsense"], ["fetch"], ["fetch", ""], ["fetch", "ss"], ["fetch", "../sst"], ["fetch", "\x1b[31m"],
        ["check", ""], ["check", "ss"], ["check", "/"], ["check", "--again"], ["check", "sst"],
        ["list", "sst"], ["check", "\udce9"],
    ],
    "tools.collect": [[path] for path in PATHS if path not in ("", " ", ".", "/")] + [["a", "b"], ["--nonsense"]],
    "tools.handout": [
        *([path] for path in ("", " ", "{place}/text", "{place}/loop", "/proc", "/dev/null", "/dev/full/x")),
        ["{place}/a", "{place}/b"], ["--help"], ["--nonsense"], ["--notebook"],
        *(["--notebook", name] for name in ("", "nowhere", "../tests", "{place}/text", "\x1b[31m")),
    ],
    **{f"tools.{name}": [["--nonsense"], ["x"]] for name in ("audit", "robustness", "small_transformer", "speed")},
    "tools.fixed_words": [["--nonsense"], ["x"], ["people", "x"], ["--seed", "x"]],
    "tools.attention_rows": [["--nonsense"], ["x"], ["--seed", "x"], ["sparsemax", ""]],
    "tools.spare_words": [[], ["--nonsense"], ["nowhere"], ["{run}"]],
    "tools.empty_texts": [[], ["--nonsense"], ["nowhere"], ["{run}"]],
    "tools.larger_penalties": [[], ["--nonsense"], ["nowhere"], ["{run}"]],
    "tools.twins": [["--nonsense"], ["nowhere"]],
    "tools.book": [["--nonsense"], ["x", "y"]],
}  # fmt: skip
THREADS = ("abc", "0", "-1", "1.5", "1e3", "\u0663", "99999999999", "4,2", "\x1b[31m", "1" * 5000)
READABLE = ("good", "with_mark", "with_returns", "with_nul", "no_header", "bad_header", "header_of_a_list",
            "other_kernel", "bad_syntax", "brackets", "unknown_class", "no_work", "exits", "interrupts",
            "list_of_metrics", "metrics_of_texts", "removes_its_folder", "writes_its_marks")  # fmt: skip
ACCEPTED: dict[str, list[list[str]]] = {
    "rationale.runs": [
        *([f"{{place}}/{name}.py", "--list"] for name in READABLE), ["{place}/caf\udce9.py", "--list"],
        [GOOD, "/dev/null"], [GOOD, "{place}/caf\udce9.yaml"], [GOOD, "--name=-"],
        *([GOOD, "--outputs", path] for path in ("{place}/nothing", "{place}/empty", "{place}/dangling",
                                                 "{place}/\x1b[31m", "{place}/\n")),
    ],
    "rationale.sweeps": [
        *([f"{{sweep}}/{name}.yaml"] for name in ("empty_grid", "an_empty_run", "a_blank_run")), ["../sweeps/tiny"],
    ],
    "rationale.predict": [["{run}", "--file", "{place}/text"], ["{run}", "--text", "\udce9"],
                          ["{run}", "--text", "\ufeff"]],
    "tools.handout": [["--help"]],
}  # fmt: skip
