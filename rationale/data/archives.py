"""Archives: where a corpus or a set of vectors comes from, and how it is fetched and verified.

The archive of a corpus is defined in its file in `data/corpora`, those of word vectors in `data/vector_archives.py`.

A download goes to a separate folder (`.fetch-...` in the data folder) and is verified there: by its sha256 if it is
known (`checked.py` records it otherwise), and always by comparing its contents with known counts. Only then is it moved
to its place. So a file in its place is complete, and a failed download leaves the previous files unchanged.
"""

import functools
import logging
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rationale.data.checked import changed_since_check, record_check
from rationale.data.files import brief
from rationale.digests import data_folder, digest_of
from rationale.errors import BadInput, optional, typed

# `by_hand` of an archive without a public address; {} is its folder
MADE_HERE = "it was made for this project and has no public address; put the files into {}, or use another set"


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    Parameters
    ----------
    url : official address
    path : its place, relative to the data folder
    sha256 : 64 hexadecimal digits, or None if it is not known
    members : (name in the zip, path) pairs
        These files are extracted and the zip is deleted. Empty: the file is kept as it is.
    """

    url: str
    path: str
    sha256: str | None = None
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Archive:
    """One corpus or set of vectors.

    Parameters
    ----------
    name : its name in `python -m rationale.data`
    what, page, terms : one line each: its contents, its official address, its terms of use as far as they are known
    places : alternatives, each a tuple of glob patterns relative to the data folder
        The archive is present if every pattern of one alternative matches a file.
    counts : what `check` compares, in words
    check : function from the data folder to a list of problems, one line each; [] if there are none
    sha256 : place of a file, relative to the data folder -> 64 hexadecimal digits
        Of the official files, as far as they are known.
    downloads : the files that `fetch` downloads; empty: a program cannot fetch them, and `by_hand` says why and what
        to do
    """

    name: str
    what: str
    page: str
    terms: str
    places: tuple[tuple[str, ...], ...]
    counts: str
    check: Callable[[Path], list[str]]
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)

    def known(self) -> dict[str, str]:
        """The sha256 of each file whose sha256 is known, by its place relative to the data folder."""
        return {download.path: download.sha256 for download in self.downloads if download.sha256} | dict(self.sha256)

    def files(self, root: Path) -> list[Path]:
        """Its files below the data folder `root`; [] if any file is missing."""
        for patterns in self.places:
            matches = [sorted(path for path in root.glob(pattern) if path.is_file()) for pattern in patterns]
            if all(matches):
                return [path for paths in matches for path in paths]
        return []


def fetch(archive: Archive, root: Path | None = None, again: bool = False) -> list[Path]:
    """Download an archive, verify it and move it to its place; does nothing if the archive is already there.

    Parameters
    ----------
    archive : Archive
    root : Path or None
        The data folder; None: `rationale.data.data_folder()`.
    again : bool
        Fetch the archive even if it is there. Its files are replaced only by a verified download.

    Returns
    -------
    list of Path
        Its files.

    Raises
    ------
    BadInput
        The archive cannot be fetched by a program, the server cannot be reached or stops early, or the sha256 or the
        counts are wrong. One line says what happened and what to do by hand; no file is changed.
    """
    root = Path(root or data_folder())
    present = archive.files(root)
    if present and not again:
        return present
    if not archive.downloads:
        raise BadInput(f"{archive.name}: {archive.by_hand}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".fetch-{archive.name}-", dir=root))
    except OSError as error:
        raise BadInput(
            f"{archive.name}: cannot write into {root} ({error.strerror}); set RATIONALE_DATA to a folder of your own"
        ) from error
    try:
        staged = [path for download in archive.downloads for path in _download(archive, download, staging)]
        problems = archive.check(staging) + _unofficial(archive, staging, digest_of)
        if problems:
            raise BadInput(
                f"{archive.name}: what came from {archive.page} is not what it should be: "
                f"{'; '.join(problems)}; nothing was kept. {_by_hand(archive, root)}"
            )
        for path in staged:
            target = root / path.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    files = archive.files(root)
    record_check(files, digest_of)
    return files


def verify(archive: Archive, root: Path | None = None, again: bool = False) -> list[str]:
    """The problems of an archive in the data folder, one line each; [] if there are none.

    Its contents are compared with the known counts, and its files with their official sha256. A file whose sha256 is
    not known is recorded when it is first checked, and compared with this record from then on.

    Parameters
    ----------
    archive : Archive
    root : Path or None
        The data folder; None: `rationale.data.data_folder()`.
    again : bool
        Record the files anew, because they were replaced on purpose.

    Raises
    ------
    BadInput
        The archive is not there, or the record cannot be read or written.
    """
    root = Path(root or data_folder())
    files = archive.files(root)
    if not files:
        raise missing(archive, root)
    digest = functools.cache(digest_of)  # a set of vectors takes seconds
    problems = archive.check(root) + _unofficial(archive, root, digest)
    if not again:
        unknown = [path for path in files if path.relative_to(root).as_posix() not in archive.known()]
        problems += [
            f"{line}; if you have replaced it on purpose: {typed('rationale.data check')} --again {archive.name}"
            for line in changed_since_check(unknown, digest)
        ]
    if not problems:
        record_check(files, digest)
    return problems


def _unofficial(archive: Archive, root: Path, digest: Callable[[Path], str]) -> list[str]:
    """One line per file below `root` whose sha256 is not the official one."""
    lines = []
    for place, sha256 in archive.known().items():
        path = root / place
        if path.is_file() and (found := digest(path).split()[1]) != sha256:
            lines.append(f"{place}: its sha256 is {found}, that of the official file is {sha256}")
    return lines


def missing(archive: Archive, place: Path, what: str = "") -> BadInput:
    """The error for an archive, or its file `what`, that is not in `place`."""
    looked_for = what or places_in_words(archive)
    return BadInput(f"{archive.name}: not in {place}; looked for {looked_for}. {how_to_get(archive)}")


def locate(archive: Archive, path: Path | str | None, unpacked: str) -> Path:
    """The place of an archive that is one file: this file, or a folder with its unpacked files.

    Parameters
    ----------
    archive : Archive
    path : the file, a folder that holds it or the unpacked files, or None: its folder in the data folder
    unpacked : glob pattern of the unpacked files

    Raises
    ------
    BadInput
        The archive is not there.
    """
    place = Path(path) if path is not None else data_folder() / archive.name
    if place.is_file():
        return place
    packed = [held for patterns in archive.places for pattern in patterns for held in place.glob(Path(pattern).name)]
    if packed or any(place.rglob(unpacked)):
        return min(packed, default=place)
    raise missing(archive, place)


def places_in_words(archive: Archive) -> str:
    """The places of the files of an archive, below the data folder."""
    return " or ".join(", ".join(patterns) for patterns in archive.places)


def how_to_get(archive: Archive) -> str:
    """One sentence: the command that fetches an archive, or what to do by hand."""
    if archive.downloads:
        return f"Get it: {typed('rationale.data fetch')} {archive.name}"
    return archive.by_hand[:1].upper() + archive.by_hand[1:]


def _download(archive: Archive, download: Download, staging: Path) -> list[Path]:
    """Fetch one file into the staging folder; returns its paths, those of its members if it is unpacked."""
    pooch = optional("pooch", f"fetching {archive.name}", "data")
    requests = optional("requests", f"fetching {archive.name}", "data")
    pooch.get_logger().setLevel(logging.WARNING)
    target = staging / download.path
    known_hash = download.sha256 and f"sha256:{download.sha256}"
    by_hand = _by_hand(archive, staging.parent)
    try:
        pooch.retrieve(
            download.url,
            known_hash,
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=60),
        )
    except (OSError, requests.exceptions.RequestException) as error:
        raise BadInput(f"{archive.name}: {download.url} cannot be fetched ({brief(error)}). {by_hand}") from error
    except ValueError as error:  # pooch: the hash is wrong
        raise BadInput(
            f"{archive.name}: {download.url} is not the file it should be: {brief(error)}. {by_hand}"
        ) from error
    if not download.members:
        return [target]
    try:
        with zipfile.ZipFile(target) as file:
            for member, path in download.members:
                (staging / path).parent.mkdir(parents=True, exist_ok=True)
                (staging / path).write_bytes(file.read(member))  # `read` compares the checksum
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, OSError) as error:
        raise BadInput(
            f"{archive.name}: {download.url} is cut short or damaged ({brief(error)}); nothing was kept. {by_hand}"
        ) from error
    target.unlink()
    return [staging / path for _, path in download.members]


def _by_hand(archive: Archive, root: Path) -> str:
    steps = []
    for download in archive.downloads:
        if download.members:
            files = ", ".join(f"{member} as {root / path}" for member, path in download.members)
            steps.append(f"get {download.url} and unpack {files}")
        else:
            steps.append(f"save {download.url} as {root / download.path}")
    return f"By hand: {'; '.join(steps)}; then: {typed('rationale.data check')} {archive.name}"
