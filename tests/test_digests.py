"""Which files were read: their digests, their places, and whether they have changed since."""

import hashlib

from rationale import digests
from rationale.data.files import members, read_lines, read_text
from rationale.data.vectors import read_vectors


def fresh(monkeypatch, tmp_path):
    """A data folder of the test's own, and no file read so far."""
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path / "data"))
    for name in ("_digests", "_stamps"):
        monkeypatch.setattr(digests, name, {})
    monkeypatch.setattr(digests, "on_reading", [])
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_every_file_that_is_read_is_recorded_with_its_size_and_sha256(monkeypatch, tmp_path):
    data = fresh(monkeypatch, tmp_path)
    heard = []
    digests.on_reading.append(lambda place, digest: heard.append((place, digest)))
    content = b"the 1 2 3\n"
    for name in ("a.txt", "b.txt", "v.txt"):
        (data / name).write_bytes(content)
    (tmp_path / "outside.txt").write_bytes(b"")
    read_text(data / "a.txt")
    list(read_lines(data / "b.txt"))
    read_vectors(data / "v.txt", ["the"])
    read_text(tmp_path / "outside.txt")
    read_text(data / "a.txt")
    digest = f"{len(content)} {hashlib.sha256(content).hexdigest()}"
    empty = f"0 {hashlib.sha256(b'').hexdigest()}"
    expected = dict.fromkeys(("a.txt", "b.txt", "v.txt"), digest) | {str(tmp_path / "outside.txt"): empty}
    assert digests.files_read() == expected and heard == list(expected.items()), "each once"


def test_a_folder_counts_as_one_and_changes_with_a_name_or_a_content(monkeypatch, tmp_path):
    data = fresh(monkeypatch, tmp_path)
    (data / "some" / "more").mkdir(parents=True)
    (data / "some" / "a.txt").write_text("a")
    (data / "some" / "more" / "b.txt").write_text("b")
    assert [name for name, _ in members(data / "some")] == ["a.txt", "more/b.txt"]
    read = digests.files_read()
    assert list(read) == ["some"] and digests.changed(read) == []
    (data / "some" / "a.txt").rename(data / "some" / "c.txt")
    assert digests.changed(read) == ["some"], "another name"
    (data / "some" / "c.txt").rename(data / "some" / "a.txt")
    (data / "some" / "a.txt").write_text("z")
    assert digests.changed(read) == ["some"], "another content of the same size"


def test_a_data_folder_may_move_and_files_may_go(monkeypatch, tmp_path):
    data = fresh(monkeypatch, tmp_path)
    (data / "a.txt").write_text("a")
    read_text(data / "a.txt")
    read = digests.files_read()
    monkeypatch.setenv("RATIONALE_DATA", str(data.rename(tmp_path / "moved")))
    assert digests.changed(read) == []
    (tmp_path / "moved" / "a.txt").write_text("b")
    assert digests.changed(read) == ["a.txt"]
    (tmp_path / "moved" / "a.txt").unlink()
    assert digests.changed(read) == []
