"""The hub of Hugging Face: one attempt tells whether it can be reached, so that a run waits for nothing offline."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

from rationale.errors import optional

PATIENCE = 10.0  # seconds that one attempt may take


@contextmanager
def hub_or_cache(name: str, first_file: str, kind: str = "model") -> Iterator[None]:
    """Within the block, the libraries of the hub use only the cache of this machine if the hub cannot be reached.

    By themselves they try six times to fetch a file that the cache lacks. Without a network that takes a minute, and
    each attempt prints two lines.

    Parameters
    ----------
    name : str
        What the block loads: `owner/name`.
    first_file : str
        A file to ask for; it need not be there.
    kind : str
        `model` or `dataset`.
    """
    extra = "pretrained" if kind == "model" else "texts"
    constants = optional("huggingface_hub.constants", f"{name} of the hub", extra)
    offline = not constants.HF_HUB_OFFLINE and not _is_reached(name, first_file, kind)
    with ExitStack() as undo:
        if offline:
            for module in (constants, sys.modules.get("datasets.config")):
                _switch_off(module, undo)
        yield


def _switch_off(module: ModuleType | None, undo: ExitStack) -> None:
    """Let a library use its cache only, until `undo` is closed."""
    if module is not None:
        undo.callback(setattr, module, "HF_HUB_OFFLINE", vars(module)["HF_HUB_OFFLINE"])
        vars(module)["HF_HUB_OFFLINE"] = True


def _is_reached(name: str, first_file: str, kind: str) -> bool:
    """Whether anything answers, with or without the file; also True for what cannot be a name, which others refuse."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        get_hf_file_metadata(hf_hub_url(name, first_file, repo_type=kind), timeout=PATIENCE)
    except (errors.HfHubHTTPError, errors.FileMetadataError, ValueError):
        return True
    except Exception:  # errors of the network have no class in common: the library of the hub has changed its own
        return False
    return True
