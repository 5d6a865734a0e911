"""Archives: where a corpus or a set of vectors comes from, how it is fetched and verified.

The archive of a corpus stands in its file in `data/corpora`, those of word vectors in `data/vector_archives.py`.

A download goes to a folder of its own (`.fetch-...` in the data folder) and is verified there: its sha256
where one is known, and always its contents, by the counts that are known of them. Only then it moves to its
place. So a file in its place is a finished one, and a failed download leaves what was there before.
"""

import logging
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rationale.data.example import data_folder
from rationale.data.files import brief
from rationale.errors import BadInput, typed

# `by_hand` of what has no public address; {} is its folder
MADE_HERE = "it was made for this project and has no public address; put the files into {}, or use another set"


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    Parameters
    ----------
    url : official address
    path : where it goes, relative to the data folder
    sha256 : 64 hexadecimal digits, or None where the publisher gives none
    members : (name in the zip, path) pairs
        These are taken out of the archive and the archive is dropped. Empty: the file is kept as it is.
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
    name : what `python -m rationale.data` calls it
    what, page, terms : one line each: what it is, its official address, terms of use as far as known
    places : alternatives, each a tuple of glob patterns relative to the data folder
        It is present when every pattern of one alternative matches a file.
    counts : what `check` compares, in words
    check : data folder -> what is wrong, one line per problem; [] if nothing is
    downloads : what `fetch` gets; empty: a program cannot fetch it, and `by_hand` says why and what to do
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

    def files(self, root: Path) -> list[Path]:
        """Its files below the data folder `root`; [] if it is not there, or not all of it."""
        for patterns in self.places:
            found = [sorted(path for path in root.glob(pattern) if path.is_file()) for pattern in patterns]
            if all(found):
                return [path for paths in found for path in paths]
        return []


def fetch(archive: Archive, root: Path | None = None, again: bool = False) -> list[Path]:
    """Download, verify, put in place; does nothing if the archive is there already.

    Parameters
    ----------
    archive : Archive
    root : Path or None
        The data folder; None: `rationale.data.data_folder()`.
    again : bool
        Fetch it although it is there. What is there is replaced only by a verified download.

    Returns
    -------
    list of Path
        Its files.

    Raises
    ------
    BadInput
        It cannot be fetched by a program, the server cannot be reached or stops early, the sha256 is wrong,
        or the counts are: one line with what happened and what to do by hand. Nothing is changed then.
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
        problems = archive.check(staging)
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
    return archive.files(root)


def verify(archive: Archive, root: Path | None = None) -> list[str]:
    """What is wrong with an archive in the data folder, a line each; [] if nothing is.

    Raises
    ------
    BadInput
        It is not there.
    """
    root = Path(root or data_folder())
    if not archive.files(root):
        raise missing(archive, root)
    return archive.check(root)


def missing(archive: Archive, place: Path, what: str = "") -> BadInput:
    """What to say where an archive, or its file `what`, is not in `place`."""
    looked_for = what or places_in_words(archive)
    return BadInput(f"{archive.name}: not in {place}; looked for {looked_for}. {how_to_get(archive)}")


def locate(archive: Archive, path: Path | str | None, unpacked: str) -> Path:
    """Where a reader finds an archive that is one file: that file, or a folder with its unpacked files.

    Parameters
    ----------
    archive : Archive
    path : the file, a folder that holds it or the unpacked files, or None: its folder in the data folder
    unpacked : glob pattern of the unpacked files

    Raises
    ------
    BadInput
        It is not there.
    """
    place = Path(path) if path is not None else data_folder() / archive.name
    if place.is_file():
        return place
    packed = [held for patterns in archive.places for pattern in patterns for held in place.glob(Path(pattern).name)]
    if packed or any(place.rglob(unpacked)):
        return min(packed, default=place)
    raise missing(archive, place)


def places_in_words(archive: Archive) -> str:
    """Where the files of an archive go, below the data folder."""
    return " or ".join(", ".join(patterns) for patterns in archive.places)


def how_to_get(archive: Archive) -> str:
    """One sentence: the command that fetches it, or what to do by hand."""
    if archive.downloads:
        return f"Get it: {typed('rationale.data fetch')} {archive.name}"
    return archive.by_hand[:1].upper() + archive.by_hand[1:]


def _download(archive: Archive, download: Download, staging: Path) -> list[Path]:
    """Fetch one file into the staging folder; returns the files it gave."""
    import pooch
    import requests

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
                (staging / path).write_bytes(file.read(member))  # read compares the checksum
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
