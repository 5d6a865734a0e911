"""`python -m rationale.data list | fetch NAME... | check [NAME...] | cache`: download the data and check it."""

import argparse
import os
import shutil
import sys
import textwrap
import time

from rationale.data import archives, cache, corpora
from rationale.data.example import data_folder
from rationale.errors import BadInput, command, printable, typed

OVERVIEW = """\
The data is not part of this project: everyone downloads it from its publishers.

  python -m rationale.data list          all archives, where they come from, whether you have them
  python -m rationale.data fetch sst     download one, verify it, put it where the readers look for it
  python -m rationale.data check         verify all archives that you have
  python -m rationale.data cache         what is kept of files that were read before; --clear deletes it

The data folder is the environment variable RATIONALE_DATA if it is set, else a cache folder of your user.
Nothing is needed for `make demo`, which runs on a synthetic corpus.
"""
FETCH = """\
Download archives from their publishers, verify them and put them where the readers look for them.

A download is verified before it is moved to its place: by its sha256 if that is known, and always by
counting its contents. If the verification fails, nothing changes. Archives that you have are not downloaded again.
A download that was killed leaves a folder .fetch-... in the data folder; delete this folder.

examples:
  python -m rationale.data fetch sst
  python -m rationale.data fetch sst glove.840B.300d
  RATIONALE_DATA=~/data python -m rationale.data fetch imdb
  python -m rationale.data fetch sst --again      replace your files by a new, verified download

without internet:
  `python -m rationale.data list` shows each address and the place of each file. Copy the file to that place
  on the machine without internet and run `python -m rationale.data check NAME` there.

exit code: 0 all archives are there, 2 an archive could not be fetched (one line names it and says what to do by hand)
"""
LIST = """\
List the archives: what each contains, its official address and terms, its place, and whether you have it.

examples:
  python -m rationale.data list
  RATIONALE_DATA=~/data python -m rationale.data list

"here" only means that the files exist; `python -m rationale.data check` reads them.
"""
CHECK = """\
Read the archives that you have, compare their contents with the known counts and their files with the official sha256.

A file whose official sha256 is not known is recorded when it is first checked, in checked.json of the cache folder of
your user. From then on it is compared with this record.

examples:
  python -m rationale.data check                   all archives in the data folder (a minute)
  python -m rationale.data check sst glove.6B      these two; a missing archive is an error
  python -m rationale.data check --again hotels    record its files anew, after you have replaced them on purpose

exit code: 0 all archives are right, 2 an archive is wrong or missing (one line per problem)
"""
CACHE = """\
Show what is kept of data files that were read before, so that the next run need not parse them again, or delete it.

The cache is in a cache folder of your user. The environment variable RATIONALE_CACHE names another folder, or `off`.
An entry is used only if its data files have the same content as when it was made. Entries that were not used for the
longest time are deleted when the cache becomes larger than its limit.

examples:
  python -m rationale.data cache
  python -m rationale.data cache --clear       delete all entries; the next run of each kind reads its files again
  RATIONALE_CACHE=off python -m rationale.runs 12_train_sst
"""


@command
def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    return options.run(options)


def _parser() -> argparse.ArgumentParser:
    def page(subparsers, name, text, run, **names):
        parser = subparsers.add_parser(
            name,
            description=text,
            help=text.split("\n")[0],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=run)
        if names:
            parser.add_argument("names", metavar="NAME", help="a name that `list` shows", **names)
        return parser

    parser = argparse.ArgumentParser(
        prog="python -m rationale.data",
        description=OVERVIEW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="list | fetch | check | cache")
    page(commands, "list", LIST, _list)
    fetch = page(commands, "fetch", FETCH, _fetch, nargs="+")
    fetch.add_argument("--again", action="store_true", help="fetch an archive even if you have it")
    check = page(commands, "check", CHECK, _check, nargs="*")
    check.add_argument("--again", action="store_true", help="record the files anew; name the archives")
    kept = page(commands, "cache", CACHE, _cache)
    kept.add_argument("--clear", action="store_true", help="delete all entries")
    return parser


def _list(_) -> int:
    missing = "" if data_folder().exists() else ", which does not exist"
    print(f"data folder: {printable(str(data_folder()))} ({_origin()}){missing}\n")
    width, columns = max(map(len, corpora.archives())), min(max(shutil.get_terminal_size((100, 24)).columns, 40), 100)
    print(f"{'name':{width}}  here  what")
    for archive in corpora.archives().values():
        here = "yes" if archive.files(data_folder()) else "no"
        how = "sha256; " if archive.known() else "sha256 of your files, once they were checked; "
        print(_wrapped(f"{archive.name:{width}}  {here:4}  ", archive.what, columns))
        for label, text in (
            ("address", archive.page),
            ("terms", archive.terms),
            ("place", archives.places_in_words(archive)),
            ("check", how + archive.counts),
            ("by hand", archive.by_hand),
        ):
            if text:
                print(_wrapped(f"    {label:7}  ", text, columns))
    return 0


def _wrapped(start: str, text: str, columns: int) -> str:
    """A text behind its label, in lines of at most so many columns; an address or a path stays whole."""
    indent = " " * len(start)
    return start + textwrap.fill(
        text, columns, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ).removeprefix(indent)


def _fetch(options) -> int:
    wanted = [
        corpora.find_archive(name) for name in options.names
    ]  # a wrong name stops the command before any download
    failed = 0
    for archive in wanted:
        before = archive.files(data_folder())
        if archive.downloads and (options.again or not before):
            urls = ", ".join(download.url for download in archive.downloads)
            print(f"{archive.name}: fetching {urls} ({archive.terms})", flush=True)
        try:
            files = archives.fetch(archive, again=options.again)
        except BadInput as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
            continue
        if before and not options.again:
            print(f"{archive.name}: already there; --again fetches it anew, `check {archive.name}` reads it")
        for path in files:
            print(f"{archive.name}: {path}")
    return 2 if failed else 0


def _check(options) -> int:
    root = data_folder()
    if options.again and not options.names:
        raise BadInput("--again: for which archive? Give its name; `list` shows the names")
    wanted = [corpora.find_archive(name) for name in options.names]
    if not wanted:
        wanted = [archive for archive in corpora.archives().values() if archive.files(root)]
    if not wanted:
        raise BadInput(
            f"{root} ({_origin()}) holds none of the archives; set RATIONALE_DATA to your data folder, "
            f"or run `{typed('rationale.data fetch sst')}`"
        )
    wrong = 0
    for archive in wanted:
        try:
            problems = archives.verify(archive, root, options.again)
        except BadInput as error:
            problems = [str(error).removeprefix(f"{archive.name}: ")]
        for problem in problems:
            print(f"{archive.name}: WRONG {printable(problem)}")
        if not problems:
            print(f"{archive.name}: OK ({archive.counts})", flush=True)
        wrong += bool(problems)
    return 2 if wrong else 0


def _cache(options) -> int:
    place = cache.folder()
    if place is None:
        print("cache: switched off (RATIONALE_CACHE)")
        return 0
    entries = cache.stored()
    if options.clear:
        for entry in entries:
            cache.delete(entry.name)
        left = {entry.name for entry in cache.stored()}
        size = sum(entry.size for entry in entries if entry.name not in left)
        print(f"cache: {printable(str(place))}: {len(entries) - len(left)} entries deleted, {size / 2**20:,.1f} MiB")
        if left:
            print(f"error: {printable(str(place))}: {len(left)} entries cannot be deleted", file=sys.stderr)
        return 2 if left else 0
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"{entry.size / 2**20:10,.1f} MiB  last used {used}  {entry.name}")
    total = sum(entry.size for entry in entries)
    print(f"cache: {printable(str(place))}: {total / 2**20:,.1f} of at most {cache.LIMIT / 2**20:,.0f} MiB")
    return 0


def _origin() -> str:
    return "RATIONALE_DATA" if os.environ.get("RATIONALE_DATA") else "cache folder; RATIONALE_DATA is not set"


if __name__ == "__main__":
    sys.exit(main())
