"""The data command: fetched from a server of our own, verified, and never half in place."""

import functools
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rationale.data import __main__, archives, checked, corpora, data_folder, vector_archives
from rationale.data.archives import Archive, Download
from rationale.errors import BadInput

TREES = "(3 (2 It) (4 (2 's) (4 (3 lovely) (2 .))))\n"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; a path that begins with /short/ stops in the middle of the file it promised."""

    requests: list[str] = []

    def do_GET(self):
        Handler.requests.append(self.path)
        if not self.path.startswith("/short/"):
            return super().do_GET()
        content = (Path(self.directory) / self.path.removeprefix("/short/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(folder that is served, its address)"""
    served = tmp_path_factory.mktemp("served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(served))) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """A data folder of the test's own, no proxy, no requests yet."""
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    Handler.requests = []


def zipped(members: dict[str, str], compression=zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return buffer.getvalue()


def toy(url: str, sha256: str | None = None, trees: int = 3) -> Archive:
    """An archive like the treebank: a zip with one file of trees, checked by their number."""

    def check(root: Path) -> list[str]:
        found = (root / "toy" / "train.txt").read_text().count("\n")
        return [] if found == trees else [f"{found} trees instead of {trees}"]

    members = (("trees/train.txt", "toy/train.txt"),)
    downloads = (Download(url, "toy/toy.zip", sha256, members),)
    return Archive("toy", "a toy", url, "free", (("toy/train.txt",),), f"{trees} trees", check, downloads)


def whole(url: str, sha256: str | None = None, name: str = "vectors.zip") -> Archive:
    """An archive like the word vectors: kept as it comes."""
    place, check = f"vectors/{name}", vector_archives.check_vectors("vectors*", {})
    downloads = (Download(url, place, sha256),)
    return Archive("whole", "vectors", url, "free", ((place,),), "fields", check, downloads)


def put(server, name: str, content: bytes) -> str:
    """Serve this content; returns its address."""
    served, address = server
    (served / name).write_bytes(content)
    return f"{address}/{name}"


def left(root: Path) -> list[str]:
    """Everything in the data folder, hidden things too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else []


# fetch


def test_fetch_puts_the_members_in_their_places_and_leaves_nothing_else(server):
    content = zipped({"trees/train.txt": TREES * 3, "trees/readme.txt": "not wanted"})
    archive = toy(put(server, "toy.zip", content), hashlib.sha256(content).hexdigest())
    assert archives.fetch(archive) == [data_folder() / "toy" / "train.txt"]
    assert (data_folder() / "toy" / "train.txt").read_text() == TREES * 3
    assert left(data_folder()) == ["toy", "toy/train.txt"]


def test_fetch_keeps_a_whole_file_when_no_members_are_wanted(server):
    content = zipped({"vectors.3d.txt": "the 0.1 0.2 0.3\ncat 1 2 3\n"})
    archive = whole(put(server, "vectors.zip", content))
    archives.fetch(archive)
    assert (data_folder() / "vectors" / "vectors.zip").read_bytes() == content
    assert left(data_folder()) == ["vectors", "vectors/vectors.zip"]


def test_what_is_there_is_not_downloaded_again(server):
    archive = toy(put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3})))
    archives.fetch(archive)
    archives.fetch(archive)
    assert Handler.requests == ["/toy.zip"]


def test_again_downloads_again(server):
    archive = toy(put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3})))
    archives.fetch(archive)
    (data_folder() / "toy" / "train.txt").write_text("edited\n")
    archives.fetch(archive, again=True)
    assert (data_folder() / "toy" / "train.txt").read_text() == TREES * 3
    assert len(Handler.requests) == 2


def refused(server, archive: Archive, *words: str) -> None:
    """Fetching fails in one line with these words and with what to do by hand, and leaves nothing behind."""
    with pytest.raises(BadInput) as caught:
        archives.fetch(archive)
    message = str(caught.value)
    for word in ("By hand", archive.name, *words):
        assert word in message, f"{word!r} is not in {message!r}"
    assert "\n" not in message
    assert left(data_folder()) == [], f"left behind: {left(data_folder())}"


def test_a_wrong_hash_is_refused(server):
    url = put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3}))
    refused(server, toy(url, "0" * 64), "hash", "0" * 64, url)


def test_a_download_that_stops_early_is_refused(server):
    put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3}))
    refused(server, toy(f"{server[1]}/short/toy.zip"), "/short/toy.zip")


def test_a_whole_file_that_stops_early_is_refused(server):
    put(server, "vectors.zip", zipped({"vectors.3d.txt": "the 0.1 0.2 0.3\n" * 500}))
    refused(server, whole(f"{server[1]}/short/vectors.zip"), "/short/vectors.zip")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("make", [toy, whole])
def test_a_file_that_is_cut_short_at_the_publisher_is_refused(server, make, share):
    content = zipped({"trees/train.txt": TREES * 300, "vectors.3d.txt": "the 0.1 0.2 0.3\n" * 300})
    url = put(server, "cut.zip", content[: int(share * len(content))])
    refused(server, make(url))


def test_a_zip_with_a_damaged_byte_is_refused(server):
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        content = bytearray(zipped({"trees/train.txt": TREES * 3}, compression))
        content[60] ^= 0xFF
        refused(server, toy(put(server, "damaged.zip", bytes(content))), "cut short or damaged")
        refused(server, whole(put(server, "damaged.zip", bytes(content))), "cut short, damaged")


def test_a_zip_without_the_wanted_member_is_refused(server):
    refused(server, toy(put(server, "toy.zip", zipped({"other.txt": "x"}))), "trees/train.txt")


def test_a_login_page_instead_of_the_archive_is_refused(server):
    page = b"<html>please log in</html>"
    refused(server, toy(put(server, "page.zip", page)), "not a zip file")


def test_wrong_counts_are_refused(server):
    url = put(server, "toy.zip", zipped({"trees/train.txt": TREES * 2}))
    refused(server, toy(url), "2 trees instead of 3")


def test_vectors_with_a_ragged_row_are_refused(server):
    url = put(server, "vectors.zip", zipped({"vectors.3d.txt": "the 0.1 0.2 0.3\ncat 1 2\n"}))
    refused(server, whole(url), "vectors.3d.txt:2: 3 fields; accepted: 4")


def test_a_missing_address_is_refused(server):
    refused(server, toy(f"{server[1]}/nothing.zip"), "404", "nothing.zip")


def test_offline_is_told_with_what_to_do_by_hand(server):
    refused(
        server,
        toy("http://127.0.0.1:1/toy.zip"),
        "cannot be fetched",
        f"trees/train.txt as {data_folder() / 'toy' / 'train.txt'}",
    )


def test_a_good_file_survives_a_failed_fetch(server):
    archives.fetch(toy(put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3}))))
    for broken in (
        toy(f"{server[1]}/short/toy.zip"),
        toy(f"{server[1]}/toy.zip", "0" * 64),
        toy(put(server, "two.zip", zipped({"trees/train.txt": TREES * 2}))),
    ):
        with pytest.raises(BadInput):
            archives.fetch(broken, again=True)
        assert (data_folder() / "toy" / "train.txt").read_text() == TREES * 3
        assert left(data_folder()) == ["toy", "toy/train.txt"]


def test_an_interrupted_fetch_leaves_nothing_behind(server, monkeypatch):
    import pooch

    def interrupted(*arguments, **names):
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch, "retrieve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archives.fetch(toy(f"{server[1]}/toy.zip"))
    assert left(data_folder()) == []


def test_several_files_come_together_or_not_at_all(server):
    good = Download(put(server, "a.txt", b"a 1 2\n"), "vectors/vectors.a.txt")
    bad = Download(f"{server[1]}/short/a.txt", "vectors/vectors.b.txt")
    places = (("vectors/vectors.a.txt", "vectors/vectors.b.txt"),)
    check = vector_archives.check_vectors("vectors*", {})
    archive = Archive("pair", "two", "", "", places, "", check, (good, bad))
    refused(server, archive)


def test_a_data_folder_that_is_a_file_is_told(server):
    data_folder().write_text("")
    with pytest.raises(BadInput, match="cannot write into"):
        archives.fetch(toy(f"{server[1]}/toy.zip"))


@pytest.mark.parametrize("known", ["of the file", "of the download"])
def test_a_file_whose_sha256_is_known_is_compared_with_it_however_often_it_is_checked(known):
    content = b"a 1 2\n"
    hashed = hashlib.sha256(content).hexdigest()
    places = (("vectors/vectors.a.txt",),)
    downloads = (Download("https://a", "vectors/vectors.a.txt", hashed if known == "of the download" else None),)
    sha256 = {"vectors/vectors.a.txt": hashed} if known == "of the file" else {}
    check = vector_archives.check_vectors("vectors*", {})
    archive = Archive("a", "one", "", "", places, "", check, downloads, sha256=sha256)
    path = data_folder() / "vectors" / "vectors.a.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"b 1 2\n")
    for again in (False, True, False):
        (problem,) = archives.verify(archive, again=again)
        assert f"that of the official file is {hashed}" in problem
    path.write_bytes(content)
    assert archives.verify(archive) == []


def test_a_damaged_or_unwritable_record_of_checks_is_one_line(server, tmp_path):
    archives.fetch(toy(put(server, "toy.zip", zipped({"trees/train.txt": TREES * 3}))))
    record = tmp_path / "cache" / "rationale" / "checked.json"
    assert list(json.loads(record.read_text())) == [str(data_folder() / "toy" / "train.txt")]
    for text in ("{", "[]", '{"a": 3}', "null"):
        record.write_text(text)
        with pytest.raises(BadInput, match=r"checked\.json: damaged; delete it"):
            archives.verify(toy("https://nowhere"))
    record.unlink()
    shutil.rmtree(record.parent)
    record.parent.write_text("")
    with pytest.raises(BadInput, match=r"checked\.json: (cannot be written|damaged)"):
        archives.verify(toy("https://nowhere"))


def test_checks_that_are_recorded_at_the_same_time_are_all_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places = [tmp_path / f"file{i}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: checked.record_check([place], lambda _: f"1 {'0' * 64}"), places))
    record = tmp_path / "rationale" / "checked.json"
    assert sorted(json.loads(record.read_text())) == sorted(map(str, places))


# the registry


def test_every_download_but_one_has_a_sha256_and_comes_over_https():
    downloads = [download for archive in corpora.archives().values() for download in archive.downloads]
    unknown = [download.path for download in downloads if not download.sha256]
    plain = [download.path for download in downloads if not download.url.startswith("https://")]
    assert unknown == plain == ["hotels/Review_Texts.zip"], "its publisher gives neither, as far as is known"
    known = [sha256 for archive in corpora.archives().values() for sha256 in archive.known().values()]
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in known) and len(known) == len(set(known)) >= 25


@pytest.mark.parametrize("archive", corpora.archives().values(), ids=lambda archive: archive.name)
def test_every_archive_says_where_it_comes_from_and_how_to_get_it(archive):
    assert archive.what and archive.page and archive.terms and archive.places and archive.counts
    assert bool(archive.downloads) != bool(archive.by_hand), "fetched by the program, or by hand: one of the two"
    for download in archive.downloads:
        assert download.url.startswith(("http://", "https://"))
        assert download.sha256 is None or len(download.sha256) == 64
    promised = [p for d in archive.downloads for p in ([path for _, path in d.members] or [d.path])]
    found = [
        all(any(Path(path).match(pattern) for path in promised) for pattern in patterns) for patterns in archive.places
    ]
    assert not promised or any(found), "what is fetched is not what is looked for"


def test_beer_is_refused_with_the_reason():
    with pytest.raises(BadInput, match="withdrawn by their owner.*write_beer_format"):
        archives.fetch(corpora.find_archive("beer"))


# the commands


@pytest.fixture
def registry(server, monkeypatch):
    """A registry of two: one that can be fetched, one that cannot."""
    content = zipped({"trees/train.txt": TREES * 3})
    good = toy(put(server, "toy.zip", content))
    places = (("gone.txt",),)
    gone = Archive("gone", "lost", "none", "none", places, "nothing", lambda root: [], by_hand="it is lost")
    monkeypatch.setattr(corpora, "archives", lambda: {"toy": good, "gone": gone})


def test_the_commands_fetch_and_check(registry, capsys):
    assert __main__.main(["fetch", "toy"]) == 0
    assert str(data_folder() / "toy" / "train.txt") in capsys.readouterr().out
    assert __main__.main(["fetch", "toy"]) == 0
    assert "already there" in capsys.readouterr().out
    assert __main__.main(["check", "toy"]) == 0
    assert "toy: OK (3 trees)" in capsys.readouterr().out
    trees = data_folder() / "toy" / "train.txt"
    trees.write_text(trees.read_text().replace("lovely", "lively"))
    assert __main__.main(["check", "toy"]) == 2, "the counts are right, and the file is another one"
    out = capsys.readouterr().out
    assert "toy: WRONG train.txt: not the file that was checked on" in out and "check --again toy" in out
    assert __main__.main(["check", "--again"]) == 2 and __main__.main(["check", "--again", "toy"]) == 0
    assert __main__.main(["check", "toy"]) == 0, "it was replaced on purpose"
    (data_folder() / "toy" / "train.txt").write_text(TREES)
    assert __main__.main(["check"]) == 2
    assert "toy: WRONG 1 trees instead of 3" in capsys.readouterr().out


def test_list_shows_what_is_there_and_what_is_not(registry, capsys):
    __main__.main(["fetch", "toy"])
    capsys.readouterr()
    assert __main__.main(["list"]) == 0
    out = capsys.readouterr().out
    assert (
        str(data_folder()) in out
        and "sha256 of your files, once they were checked; 3 trees" in out
        and "it is lost" in out
    )
    lines = out.splitlines()
    assert any(line.split()[:2] == ["toy", "yes"] for line in lines), out
    assert any(line.split()[:2] == ["gone", "no"] for line in lines), out


@pytest.mark.parametrize(("terminal", "columns"), [("100", 100), ("80", 80), ("300", 100), (None, 100)])
def test_list_fits_a_terminal_and_breaks_no_address(capsys, monkeypatch, terminal, columns):
    monkeypatch.setenv("COLUMNS", terminal) if terminal else monkeypatch.delenv("COLUMNS", raising=False)
    assert __main__.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines[1:] if len(line) > columns and len(line.split()) > 1] == []
    words = set(" ".join(lines).split())
    for archive in corpora.archives().values():
        assert {word for word in archive.page.split() if "://" in word} <= words, archive.name
        assert set(f"{archive.what} {archive.terms} {archive.by_hand}".split()) <= words, archive.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "toy", "sstt"], "'sstt' is not an archive; accepted: toy, gone"),
        (["fetch", "gone"], "gone: it is lost"),
        (["check", "sstt"], "'sstt' is not an archive"),
        (["check"], "holds none of the archives; set RATIONALE_DATA"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(registry, capsys, arguments, message):
    assert __main__.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and message in captured.err
    assert not Handler.requests, "something was downloaded"


def test_checking_what_is_missing_says_how_to_get_it(registry, capsys):
    assert __main__.main(["check", "toy"]) == 2
    assert "python -m rationale.data fetch toy" in capsys.readouterr().out


def test_one_failure_does_not_keep_the_others_from_being_fetched(registry, capsys):
    assert __main__.main(["fetch", "gone", "toy"]) == 2
    assert (data_folder() / "toy" / "train.txt").exists()


def test_no_progress_bar_in_logs(registry, capsys):
    __main__.main(["fetch", "toy"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [[], ["list"], ["fetch"], ["check"]])
def test_help_is_a_page_with_examples(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        __main__.main([*arguments, "--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert out.count("python -m rationale.data") >= 3, out


def test_the_command_runs_as_a_module_and_imports_no_downloader_until_needed(tmp_path):
    words = [sys.executable, "-X", "importtime", "-m", "rationale.data", "list"]
    environment = os.environ | {"RATIONALE_DATA": str(tmp_path)}
    run = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert run.returncode == 0 and run.stdout.startswith("data folder: ")
    assert not re.search(r"\| +requests$", run.stderr, re.MULTILINE), "requests is imported by `list`"


# the real data

REAL = Path(os.environ.get("RATIONALE_DATA", "no-such-folder"))  # before the tests set their own
LARGE = ("imdb", "hotels")  # these unpack 200 MB
NAMES = [name for name, archive in corpora.archives().items() if archive.files(REAL) and name not in LARGE]


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_the_real_data_has_the_known_counts(name):
    if name == "none":
        pytest.skip("no data: set RATIONALE_DATA to its folder, or run `python -m rationale.data fetch sst`")
    assert archives.verify(corpora.find_archive(name), REAL) == []
