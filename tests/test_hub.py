"""What is on the hub, without a network: nobody waits for it, and what the cache has is used."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from own_files import settings

from rationale.data.own import read_own
from rationale.errors import BadInput
from rationale.models.transformers import load_any_encoder, load_tokenizer

pytest.importorskip("datasets")
constants = pytest.importorskip("huggingface_hub.constants")
NOBODY = "http://127.0.0.1:1"  # a port at which nobody listens, as if there were no network

LOADS = {
    "encoder": (lambda: load_any_encoder("nobody/has-this", "encoder"), "^encoder: nobody/has-this cannot be loaded"),
    "tokenizer": (lambda: load_tokenizer("nobody/has-this", "encoder"), "^encoder: nobody/has-this cannot be loaded"),
    "texts": (lambda: read_own(settings("hub:nobody/has-this")), "^corpus: hub:nobody/has-this cannot be loaded"),
}


@pytest.fixture
def sleeps(tmp_path, monkeypatch):
    """The seconds for which a library of the hub has waited before it tried again; its caches are empty."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def at(monkeypatch, address: str) -> None:
    """Let the hub be at another address."""
    for name in ("huggingface_hub.constants.ENDPOINT", "datasets.config.HF_ENDPOINT"):
        monkeypatch.setattr(name, address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")


@pytest.mark.parametrize("what", LOADS)
def test_without_a_network_a_name_on_the_hub_is_refused_after_one_attempt(sleeps, monkeypatch, caplog, what):
    load, message = LOADS[what]
    at(monkeypatch, NOBODY)
    before = constants.HF_HUB_OFFLINE
    with pytest.raises(BadInput, match=message) as caught:
        load()
    assert "\n" not in str(caught.value) and caplog.records == []
    assert sleeps == [], f"a user waits for {sum(sleeps)} seconds"
    assert constants.HF_HUB_OFFLINE == before, "the next attempt may find a network"


def test_a_hub_that_answers_is_asked_and_its_answer_is_told(sleeps, monkeypatch):
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(BadInput, match="nobody/has-this cannot be loaded") as caught:
            load_any_encoder("nobody/has-this", "encoder")
        server.shutdown()
    assert len(asked) > 1 and all("nobody/has-this" in path for path in asked) and sleeps == []
    assert "couldn't connect" not in str(caught.value).lower()
