"""The readers of review rationales: what they read, what they refuse, and what the real corpora hold."""

import gzip
import io
import json
import lzma
import random
import tarfile
from collections import Counter
from pathlib import Path

import pytest
import torch

from rationale.data import Example, archives, data_folder, sumdata, tokenise
from rationale.data.corpora import (
    aeslc,
    beer,
    duc2004,
    find_archive,
    gigaword,
    hotel_rationales,
    hotels,
    imdb,
    imdb_rationales,
    movies,
    multi30k,
    nli_small,
    snli,
    sst,
    synthetic,
)
from rationale.data.pairs import build_pair_vocabulary
from rationale.data.read import read_extraction
from rationale.data.targets import END, build_text_vocabularies
from rationale.errors import BadInput
from rationale.training.settings import ReviewSettings


def refused(read, *names: str) -> str:
    """The one line of a refusal, which holds all of these."""
    with pytest.raises(BadInput) as caught:
        read()
    message = str(caught.value)
    assert "\n" not in message
    for name in names:
        assert name in message, f"{name!r} is not in {message!r}"
    return message


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """A tar archive like the official ones, with these files."""
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def unpacked(place: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def sizes(splits: dict[str, list[Example]]) -> tuple[int, int, int]:
    return tuple(len(splits[split]) for split in ("train", "dev", "test"))


def gold_rate(examples: list[Example]) -> float:
    """Share of tokens in rationales, over the annotated texts."""
    annotated = [example.rationale for example in examples if example.rationale is not None]
    return sum(map(sum, annotated)) / sum(map(len, annotated))


def needs(name: str) -> None:
    if not find_archive(name).files(data_folder()):
        pytest.skip(f"{name} is not in the data folder")


@pytest.mark.parametrize(
    "name, read",
    [
        ("beer", lambda: beer.read_beer("look")),
        ("hotels", lambda: hotels.read_hotels("rooms")),
        ("movies", movies.read_movies),
        ("imdb", imdb.read_imdb),
        ("imdb_rationales", imdb_rationales.read_imdb_rationales),
        ("hotel_rationales", lambda: hotel_rationales.read_hotel_rationales("service")),
    ],
)
def test_a_missing_corpus_says_where_it_was_looked_for_and_how_to_get_it(monkeypatch, tmp_path, name, read):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    refused(read, f"{name}: not in {tmp_path / name}", archives.how_to_get(find_archive(name)))


# --- words


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("The room WASN'T clean.", "the room was n't clean ."),
        ("I can't; he'll, we've, I'm, it's", "i ca n't ; he 'll , we 've , i 'm , it 's"),
        ("shopping.However we left!!", "shopping . however we left ! !"),
        ("24-hour check-in at 10:30, $1,000.50 (5%)", "24-hour check-in at 10:30 , $ 1,000.50 ( 5 % )"),
        ("well...no--never 9/10 and/or", "well ... no -- never 9/10 and / or"),
        ("“isn’t” it… good – yes—no", '" is n\'t " it ... good - yes -- no'),
        ("it\x92s \x93good\x94", 'it \'s " good "'),
        ("caf\u00e9 \u20ac5", "caf\u00e9 \u20ac 5"),
        ("  \u00a0 ", ""),
    ],
)
def test_words_marks_and_clitics_are_apart_and_in_lower_case(text, tokens):
    assert tokenise.split_words(text) == tokens.split()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 8, 9, 20])
def test_a_limit_gives_the_first_tokens(limit):
    text = "it wasn't (really) bad, no"
    assert tokenise.split_words(text, limit) == tokenise.split_words(text)[:limit]


@pytest.mark.parametrize("text", ["clichés", "didn’t", "“quoted”or…not", "£ or €", "日本"])
def test_what_was_decoded_as_chinese_is_repaired(text):
    broken = (text + "A").encode().decode("gb18030")
    assert broken != text + "A" and tokenise.repair(broken) == text + "A"


def test_a_byte_that_a_wrong_decoding_lost_leaves_a_space():
    assert tokenise.repair("didn鈥檛 鈥?and 鈧?0") == "didn’t  and  0"


def test_a_character_of_private_use_stands_for_the_bytes_that_gbk_has_for_it():
    assert tokenise.repair("銈\ue76c儭銉\ue042偒 鎶曠\ue7c8 鏂版\ue7e9") == "アメリカ 投稿 新橋"


CHINESE, JAPANESE, MIXED = (
    "这部电影很好，我非常喜欢。",
    "東京タワーの近くに泊まりました。",
    "我在東京 eat 寿司 in a café",
)


@pytest.mark.parametrize("text", ["plain", "clichés", "£5 – “good”", CHINESE, JAPANESE, MIXED])
def test_a_sound_text_is_not_repaired(text):
    assert tokenise.repair(text) == text


@pytest.mark.parametrize("text", [CHINESE, JAPANESE])
def test_a_chinese_or_japanese_text_keeps_its_characters(text):
    assert "".join(tokenise.split_words(text)) == text


HANZI = [bytes([row, column]).decode("gb2312") for row in range(0xB0, 0xD7) for column in range(0xA1, 0xFF)]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("end", ["", "?", "? ", "?!"])
def test_a_short_text_of_common_hanzi_keeps_its_characters_also_before_a_question_mark(length, end):
    choose = random.Random(length)
    texts = ["".join(choose.choices(HANZI, k=length)) for _ in range(2000)] if length > 1 else HANZI
    assert [text for text in texts if tokenise.repair(text + end) != text + end] == []


QUESTIONS = ["什么?", "好吗?", "多少钱? 50?", "本当?", "谁?", "なぜ 何?", "Why 为什么?", "最高\ue415 猫\ue415"]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_in_chinese_or_japanese_keeps_its_characters(text):
    assert "".join(tokenise.split_words(text)) == text.lower().replace(" ", "")


def test_clitics_of_a_tokenised_text_come_apart_and_nothing_else_does():
    assert tokenise.split_clitics("they don't , it's o'hara's '80s 's") == "they do n't , it 's o'hara 's '80s 's"


# --- beer


@pytest.fixture(scope="module")
def beer_files(tmp_path_factory) -> Path:
    return synthetic.write_beer_format(tmp_path_factory.mktemp("beer"), 30, 20, 40)


@pytest.mark.parametrize("aspect", ["look", "smell", "palate"])
def test_an_aspect_has_its_file_its_score_and_its_rationale(beer_files, aspect):
    splits = beer.read_beer(aspect, beer_files)
    assert sizes(splits) == (30, 20, 40)
    column = synthetic.ASPECTS.index(aspect)
    for split, stream in (
        ("train", f"aspect{column} train"),
        ("dev", f"aspect{column} heldout"),
        ("test", "annotated"),
    ):
        originals = [review.example(aspect) for review in synthetic.reviews(len(splits[split]), stream)]
        assert [e.tokens for e in splits[split]] == [e.tokens for e in originals]
        assert [e.label for e in splits[split]] == [e.label for e in originals]
        gold = [e.rationale if any(e.rationale) and split == "test" else None for e in originals]
        assert [e.rationale for e in splits[split]] == gold, "an empty list: nobody annotated it"


def test_all_aspects_have_five_scores_and_no_rationale(beer_files):
    splits = beer.read_beer("all", beer_files)
    assert sizes(splits) == (30, 20, 40)
    review = next(synthetic.reviews(1, "260k heldout"))
    assert splits["dev"][0] == Example(review.tokens, review.scores)
    assert all(len(e.label) == 5 and e.rationale is None for examples in splits.values() for e in examples)


def test_train_and_dev_are_cut_and_test_is_not(beer_files):
    whole, cut = beer.read_beer("look", beer_files), beer.read_beer("look", beer_files, max_tokens=10)
    for split in ("train", "dev"):
        assert [e.tokens for e in cut[split]] == [e.tokens[:10] for e in whole[split]]
    assert cut["test"] == whole["test"] and max(len(e.tokens) for e in cut["test"]) > 10


LOOK = {"reviews.aspect0.train.txt": b".1 .2 .3 .4 .5\ta b\n", "reviews.aspect0.heldout.txt": b"0 0 0 0 1\tc\n"}
RECORD = {"x": ["a", "b", "c", "d"], "y": [0, 0.5, 1, 1, 1], "0": [[0, 1], [2, 4]], "1": [], "2": [], "3": [], "4": []}


def annotations(*changes: dict) -> dict[str, bytes]:
    return {"annotations.json": "".join(json.dumps(RECORD | change) + "\n" for change in changes).encode()}


def test_unpacked_and_wrongly_named_files_are_read(tmp_path):
    expected = {
        "train": [Example(("a", "b"), (0.1,))],
        "dev": [Example(("c",), (0.0,))],
        "test": [Example(("a", "b", "c", "d"), (0.0,), (True, False, True, True))],
    }
    plain = unpacked(tmp_path / "plain", LOOK | annotations({}))
    assert beer.read_beer("look", plain) == expected
    misnamed = {"reviews.aspect0.heldout.txt.gz": LOOK["reviews.aspect0.heldout.txt"]}
    misnamed["reviews.aspect0.train.txt"] = gzip.compress(LOOK["reviews.aspect0.train.txt"])
    assert beer.read_beer("look", unpacked(tmp_path / "misnamed", misnamed | annotations({}))) == expected


def test_reviews_without_tokens_are_left_out(tmp_path):
    files = LOOK | annotations({}) | {"reviews.aspect0.train.txt": b"0 0 0 0 1\t\n0 0 0 0 1\ta\n\n"}
    assert len(beer.read_beer("look", unpacked(tmp_path, files))["train"]) == 1


@pytest.mark.parametrize(
    "line, what",
    [
        (".1 .2 .3 .4 .5 a b", "has no tab; accepted: five scores in [0, 1], a tab, tokens"),
        (".1 .2 .3 .4\ta b", "scores ['.1', '.2', '.3', '.4']; accepted: 5 numbers in [0, 1]"),
        (".1 .2 .3 .4 1.5\ta b", "'1.5']; accepted: 5 numbers in [0, 1]"),
        (".1 .2 .3 .4 nan\ta b", "'nan']; accepted"),
        (".1 .2 .3 .4 good\ta b", "'good']; accepted"),
        ("", "'' has no tab"),
    ],
)
def test_a_malformed_beer_review_is_named_by_file_and_line(tmp_path, line, what):
    files = LOOK | annotations({}) | {"reviews.aspect0.heldout.txt": f"0 0 0 0 1\ta\n{line}\n0 0 0 0 1\ta\n".encode()}
    refused(lambda: beer.read_beer("look", unpacked(tmp_path, files)), "reviews.aspect0.heldout.txt:2: ", what)


@pytest.mark.parametrize(
    "change, what",
    [
        ({"0": [[2, 5]]}, "range [2, 5); accepted: 0 <= start < end <= 4 tokens"),
        ({"4": [[1, 1]]}, "range [1, 1)"),
        ({"0": [[-1, 1]]}, "range [-1, 1)"),
        ({"0": [3]}, "accepted: a JSON object"),
        ({"0": [[3]]}, "accepted: a JSON object"),
        ({"0": [["a", "b"]]}, "range [a, b); accepted"),
        ({"y": [0, 1]}, "scores [0, 1]; accepted: 5 numbers"),
        ({"x": []}, "\"x\" is '[]'; accepted: a list of at least one token"),
        ({"x": "good beer"}, "\"x\" is 'good beer'; accepted: a list"),
        ({"y": "00000"}, "\"y\" is '00000'; accepted: a list of 5 numbers"),
    ],
)
def test_a_malformed_annotation_is_named_by_file_and_line(tmp_path, change, what):
    place = unpacked(tmp_path, LOOK | annotations({}, change))
    refused(lambda: beer.read_beer("look", place), "annotations.json:2: ", what)


def test_an_annotation_that_is_no_json_is_refused(tmp_path):
    place = unpacked(tmp_path, LOOK | {"annotations.json": b'{"x": ["a"]\n'})
    refused(lambda: beer.read_beer("look", place), "annotations.json:1: ", "accepted: a JSON object")


def test_a_missing_beer_file_is_named(tmp_path):
    place = unpacked(tmp_path, LOOK)
    refused(lambda: beer.read_beer("look", place), "annotations.json", str(tmp_path))
    refused(lambda: beer.read_beer("smell", place), "reviews.aspect1.train.txt.gz")


def test_a_beer_file_that_is_cut_short_is_refused(tmp_path):
    content = gzip.compress(b"0 0 0 0 1\ta b c\n" * 50)
    place = unpacked(tmp_path, LOOK | annotations({}) | {"reviews.aspect0.train.txt.gz": content[:-12]})
    refused(lambda: beer.read_beer("look", place), "reviews.aspect0.train.txt.gz: cut short")


def test_unknown_aspects_and_lengths_of_beer_are_refused(beer_files):
    refused(
        lambda: beer.read_beer("taste", beer_files), "aspect: 'taste' is unknown; accepted: look, smell, palate, all"
    )
    refused(lambda: beer.read_beer("look", beer_files, max_tokens=0), "max_tokens: 0; accepted")


# --- hotels


def review(text: str, ratings: str) -> str:
    return f"<Author>somebody\r\n<Content>{text}  \r\n<Date>Dec 23, 2008\r\n<Rating>{ratings}\t\r\n\r\n"


ALL = "5 4 3 2 1 -1 5 -1".replace(" ", "\t")
ROOMS = "4 -1 5 -1 -1 -1 -1 -1".replace(" ", "\t")
HOTELS = {
    f"Texts/hotel_{hotel}_parsed.txt": "".join(
        [
            review(f"Hotel {hotel} It wasn't bad.", ALL),
            review("Rooms only", ROOMS),
            review("Bon hotel   showReview(14303674, 'full'); ", ALL),
            review("Nice       view from our room", ALL),
            review("Zero counts as missing", "0\t0\t0\t0\t0\t0\t0\t0"),
            review("  ", ALL),
        ]
    ).encode()
    for hotel in range(100, 140)
}


@pytest.mark.parametrize("form", ["archive", "folder with the archive", "folder with the files", "other archive"])
def test_hotels_are_read_from_an_archive_or_a_folder(tmp_path, form):
    match form:
        case "folder with the files":
            place = unpacked(tmp_path, HOTELS)
        case "other archive":
            place = packed(tmp_path / "any.gz", dict(reversed(HOTELS.items())))
        case _:
            place = packed(tmp_path / "Texts.tar.xz", HOTELS)
    splits = hotels.read_hotels("all", tmp_path if form == "folder with the archive" else place)
    assert sum(sizes(splits)) == 40 and min(sizes(splits)) > 0
    for split, examples in splits.items():
        for example in examples:
            assert example == Example(
                ("hotel", example.tokens[1], "it", "was", "n't", "bad", "."), (0.75, 0.5, 0.25, 0.0, 1.0)
            )
            assert split == hotels.split_of(example.tokens[1])
    if form != "archive":
        assert splits == hotels.read_hotels("all", packed(tmp_path / "again.xz", HOTELS)), "the order is that of hashes"


def test_a_review_counts_for_the_aspects_it_rates(tmp_path):
    place = packed(tmp_path / "Texts.tar.xz", HOTELS)
    counts = {aspect: sum(sizes(hotels.read_hotels(aspect, place))) for aspect in hotels.SCORES}
    assert counts == {"value": 40, "rooms": 80, "location": 40, "cleanliness": 40, "service": 40}
    labels = {e.label for examples in hotels.read_hotels("rooms", place).values() for e in examples}
    assert labels == {(0.5,), (1.0,)}


def test_a_limit_takes_the_first_reviews_and_a_length_the_first_tokens(tmp_path):
    place = packed(tmp_path / "Texts.tar.xz", HOTELS)
    whole, part = hotels.read_hotels("rooms", place), hotels.read_hotels("rooms", place, max_tokens=2, limit=3)
    for split, examples in whole.items():
        assert [e.tokens for e in part[split]] == [e.tokens[:2] for e in examples[:3]]


def test_the_split_of_a_hotel_never_changes():
    assert [hotels.split_of(hotel) for hotel in ("305371", "100547", "100504")] == ["train", "dev", "test"]
    shares = Counter(hotels.split_of(str(hotel)) for hotel in range(10_000))
    assert shares["train"] == pytest.approx(8000, abs=160)  # 4 standard deviations
    assert shares["dev"] == pytest.approx(1000, abs=120) and shares["test"] == pytest.approx(1000, abs=120)


@pytest.mark.parametrize(
    "lines, where, what",
    [
        ("<Content>a\n<Rating>1\t2", 2, "'<Rating>1\\t2'; accepted: after a <Content>, <Rating> and 8 whole numbers"),
        (
            f"<Content>a\n<Rating>9{ALL[1:]}",
            2,
            "accepted: after a <Content>, <Rating> and 8 whole numbers from -1 to 5",
        ),
        (f"<Content>a\n<Rating>x{ALL[1:]}", 2, "from -1 to 5"),
        (f"<Rating>{ALL}", 1, "accepted: after a <Content>"),
        ("<Content>a\n\n<Content>b", 3, "'<Content>b'; accepted: lines that begin with a name in <>, a <Rating> after"),
        ("<Content>a\n", 2, "the end; accepted: at least one <Content>, a <Rating> after each"),
        ("<Author>a\nwithout a name", 2, "'without a name'; accepted: lines that begin with a name in <>"),
    ],
)
def test_a_malformed_line_of_a_hotel_is_named_by_member_and_line(tmp_path, lines, where, what):
    place = packed(tmp_path / "Texts.tar.xz", {"Texts/hotel_7_parsed.txt": lines.encode()})
    refused(lambda: hotels.read_hotels("rooms", place), f"Texts.tar.xz/Texts/hotel_7_parsed.txt:{where}: ", what)


def test_a_damaged_archive_is_refused(tmp_path):
    place = packed(tmp_path / "Texts.tar.xz", HOTELS)
    place.write_bytes(place.read_bytes()[:-200])
    refused(lambda: hotels.read_hotels("rooms", place), "Texts.tar.xz: cut short")
    place.write_bytes(b"<html>please log in</html>")
    refused(lambda: hotels.read_hotels("rooms", place), "Texts.tar.xz: cut short, damaged or of another format")


@pytest.mark.parametrize(
    "arguments, what",
    [
        ({"aspect": "business"}, "aspect: 'business' is unknown; accepted: value, rooms, location, cleanliness"),
        ({"aspect": "rooms", "max_tokens": 0}, "max_tokens: 0"),
        ({"aspect": "rooms", "limit": 0}, "limit: 0"),
    ],
)
def test_unknown_aspects_and_numbers_of_hotels_are_refused(arguments, what):
    refused(lambda: hotels.read_hotels(**arguments), what)


@pytest.mark.deep
@pytest.mark.data
def test_the_hotels_have_their_published_counts_and_the_reader_its_own(monkeypatch):
    needs("hotels")
    held = list(hotels.reviews(archives.locate(hotels.ARCHIVE, None, "*_parsed.txt")))
    assert len(held) == 243_713 and len({hotel for hotel, *_ in held}) == 1849
    rated = [sum(ratings[column] > 0 for *_, ratings in held) for column in range(1, 7)]
    assert rated == [169_027, 189_811, 126_053, 186_158, 126_150, 186_420]
    monkeypatch.setattr(hotels, "reviews", lambda place: held[::10])
    splits = hotels.read_hotels("service", limit=800)
    assert sizes(splits) == (800, 800, 800)
    texts = [e for examples in splits.values() for e in examples]
    assert max(len(e.tokens) for e in texts) == 256 and len({e.tokens for e in texts}) == 2400
    assert sum(len(e.tokens) for e in texts) / 2400 == pytest.approx(180, abs=8)
    assert {e.label for e in texts} == {(0.0,), (0.25,), (0.5,), (0.75,), (1.0,)}
    assert not any("showreview" in e.tokens for e in texts)


# --- hotels with rationales

UNMARKED = "task\tlabel\ttext\n"
MARKED = "task\tlabel\ttext\trationale\tpred_att\n"
STAFF = "hotel_Service\t1\tThe  staff was kind\t"  # two spaces, as in some texts of the publishers
R2A = {
    "oracle/hotel_Service.train": UNMARKED + "hotel_Service\t0\trude staff\n" + STAFF.strip() + "\n",
    "oracle/hotel_Service.dev": UNMARKED + "hotel_Service\t1\thelpful !\n",
    "target/hotel_Service.train": MARKED + STAFF + "0 0 0 1\t0.0 0.0 0.0 0.0\n" + "hotel_Service\t0\tno help\t0 0\n",
}


def r2a(folder: Path, **changes: str) -> Path:
    return unpacked(folder, {name: changes.get(name[:6], text).encode() for name, text in R2A.items()})


def test_hotels_with_rationales_are_tested_on_the_marked_reviews_which_are_not_trained_on(tmp_path):
    splits = hotel_rationales.read_hotel_rationales("service", r2a(tmp_path))
    assert splits == {
        "train": [Example(("rude", "staff"), 0)],
        "dev": [Example(("helpful", "!"), 1)],
        "test": [
            Example(("the", "staff", "was", "kind"), 1, (False, False, False, True)),
            Example(("no", "help"), 0, (False, False)),
        ],
    }
    cut = hotel_rationales.read_hotel_rationales("service", tmp_path, max_tokens=2)["test"][0]
    assert (cut.tokens, cut.rationale) == (("the", "staff"), (False, False))
    refused(lambda: hotel_rationales.read_hotel_rationales("rooms", tmp_path), "aspect: 'rooms'", "cleanliness")
    refused(lambda: hotel_rationales.read_hotel_rationales("location", tmp_path), "looked for oracle/hotel_Location")
    refused(lambda: hotel_rationales.read_hotel_rationales("service", tmp_path, 0), "max_tokens: 0")


def test_a_malformed_review_of_r2a_is_named_by_file_and_line(tmp_path):
    read = hotel_rationales.read_hotel_rationales
    for row in ("1\tgood\t1 0", "1\tgood\t2", "1\tgood", "2\tgood\t1", "1\t\t", "0.5\tgood\t1", "1"):
        place = r2a(tmp_path, target=f"{MARKED}{STAFF}0 0 0 1\nhotel_Service\t{row}\n")
        refused(lambda place=place: read("service", place), "Service.train:3: ", "accepted: a task")


def test_the_marked_reviews_of_hotels_are_counted_for_each_aspect(tmp_path):
    named = {
        name.replace("Service", other): text for other in ("Location", "Cleanliness") for name, text in R2A.items()
    }
    unpacked(tmp_path / "hotel_rationales", {name: text.encode() for name, text in (R2A | named).items()})
    problems = find_archive("hotel_rationales").check(tmp_path)
    assert len(problems) == 3 and all("200" in problem for problem in problems), "two reviews are marked instead of 200"


# --- movies


MOVIES = {
    f"movies/withRats_{kind}/{kind}{'' if fold == 9 else 'R'}_{fold}{number:02}.txt": (
        f"a <{kind.upper()}> doesn't bore </{kind.upper()}> {kind} caf\u00e9 .\n" if fold < 9 else f"a {kind} one .\n"
    ).encode("latin-1")
    for kind in ("pos", "neg")
    for fold in range(10)
    for number in range(3)
} | {"movies/noRats_pos/pos_000.txt": b"not read"}


def test_movies_are_read_with_the_spans_of_the_annotators(tmp_path):
    splits = movies.read_movies(packed(tmp_path / "review_polarity_rationales.tar.xz", MOVIES))
    assert sizes(splits) == (48, 6, 6)
    marked = (False, True, True, True, False, False, False)
    assert splits["test"][0] == Example(("a", "does", "n't", "bore", "neg", "caf\u00e9", "."), 0, marked)
    assert splits["test"][3] == Example(("a", "does", "n't", "bore", "pos", "caf\u00e9", "."), 1, marked)
    assert Counter(e.rationale for e in splits["train"]) == {marked: 42, None: 6}
    assert splits == movies.read_movies(unpacked(tmp_path / "unpacked", MOVIES))


def test_every_annotated_movie_is_tested_once_over_the_nine_folds(tmp_path):
    files = {name: f"number {name}".encode() for name in MOVIES if "withRats" in name}
    place = packed(tmp_path / "review_polarity_rationales.tar.xz", files)
    tested, developed = Counter(), Counter()
    for fold in movies.FOLDS:
        splits = movies.read_movies(place, fold)
        assert sum(sizes(splits)) == 60 and sum(e.rationale is None for e in splits["train"]) == 6
        tested.update(e.tokens for e in splits["test"])
        developed.update(e.tokens for e in splits["dev"])
    assert tested == developed and set(tested.values()) == {1} and len(tested) == 54


def test_the_fold_of_a_run_is_the_test_split_and_without_one_it_is_the_usual(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    (tmp_path / "movies").mkdir()
    files = {name: f"number {name}".encode() for name in MOVIES if "withRats" in name}
    place = packed(tmp_path / "movies" / "review_polarity_rationales.tar.xz", files)
    asked = {"corpus": "movies", "aspect": "overall", "look_ahead": False}
    for fold in (None, 0, 8):
        found = read_extraction(ReviewSettings.checked({**asked, "fold": fold})).splits
        plain = movies.read_movies(place, 8 if fold is None else fold)
        for name, part in plain.items():
            assert Counter(e.tokens for e in found[name]) == Counter(e.tokens for e in part), f"{fold}: {name}"
    for changes, accepted in (
        ({"fold": 9}, "null, or one of 0, 1"),
        ({"fold": 1, "corpus": "synthetic", "aspect": "look"}, "null"),
    ):
        refused(lambda changes=changes: ReviewSettings.checked(asked | changes), "fold: ", accepted)


@pytest.mark.parametrize(
    "text, what",
    [
        ("a\na <POS> b", ":2: <POS> never closed"),
        ("a\na </POS> b", ":2: </POS> as token 2; accepted: <POS> ... </POS>, one after the other"),
        ("<POS> a <POS> b </POS> </POS>", ":1: <POS> as token 1"),
        ("<NEG> a </NEG>", ":1: <NEG> as token 0; accepted: <POS>"),
        ("<POS> a </NEG>", ":1: </NEG> as token 1"),
        ("  ", ":1: no tokens"),
    ],
)
def test_a_malformed_movie_is_named_by_member_and_line(tmp_path, text, what):
    name = "movies/withRats_pos/posR_001.txt"
    place = packed(tmp_path / "some.xz", {name: text.encode()})
    refused(lambda: movies.read_movies(place), f"some.xz/{name}{what}", "accepted")


@pytest.mark.parametrize("fold", [-1, 9])
def test_folds_without_rationales_are_refused(fold):
    refused(lambda: movies.read_movies(fold=fold), f"fold: {fold}; accepted: 0 to 8")


@pytest.mark.data
def test_the_movies_have_their_published_counts():
    needs("movies")
    splits = movies.read_movies()
    assert sizes(splits) == (1600, 200, 200)
    for examples in splits.values():
        assert Counter(e.label for e in examples) == {0: len(examples) // 2, 1: len(examples) // 2}
    everything = [e for examples in splits.values() for e in examples]
    annotated = [e for e in everything if e.rationale is not None]
    assert len(annotated) == 1800 and sum(not any(e.rationale) for e in annotated) == 1, "posR_161: nothing marked"
    assert all(len(e.rationale) == len(e.tokens) for e in annotated)
    assert not any("POS>" in token or "NEG>" in token for e in everything for token in e.tokens)
    rates = [round(gold_rate(splits[split]), 3) for split in ("train", "dev", "test")]
    assert rates == [0.089, 0.064, 0.065]


# --- IMDb


def imdb_files(human: list, *pairs: tuple[str, str, str, str]) -> dict[str, bytes]:
    """The official files in small: all pairs (label, batch, original, rewritten) in train, one in dev and test."""
    files = {"rdl/datasets/IMDb/human_labelled/all.json": json.dumps(human).encode()}
    for split, held in (("train", pairs), ("dev", [("Positive", "8", "Fine", "Bad")]), ("test", [PAIR])):
        rows = ["Sentiment\tText\tbatch_id"]
        for label, batch, original, rewritten in held:
            other = {"Positive": "Negative", "Negative": "Positive"}.get(label, label)
            rows += [f"{label}\t{original}\t{batch}", f"{other}\t{rewritten}\t{batch}"]
        files[f"cad/{split}_paired.tsv.xz"] = lzma.compress("\n".join(rows).encode())
    return files


PAIR = ("Negative", "9", "Dull", "Good")
BAD = ("Negative", "1", '"A ""bad"" film.<br /><br />So bad, I didn’t stay; bad!"', "A good film.")
LONG = ("Positive", "2", "Loved it", "Hated it")
SPANS = [
    {"text": "bad", "start_token": 9, "end_token": 10},
    {"text": "didn鈥檛 stay", "start_token": 12, "end_token": 14},
]
HUMAN = [{"tid": "1", "negative_1.txt": SPANS}]


def test_reviews_keep_their_split_and_spans_are_found_by_their_text(tmp_path):
    place = unpacked(tmp_path, imdb_files(HUMAN, BAD, LONG))
    splits = imdb_rationales.read_imdb_rationales(place)
    tokens = tuple('a " bad " film . so bad , i did n\'t stay ; bad !'.split())
    marked = tuple(t in (7, 10, 11, 12) for t in range(len(tokens)))
    assert splits == {
        "train": [Example(tokens, 0, marked), Example(("loved", "it"), 1)],
        "dev": [Example(("fine",), 1)],
        "test": [Example(("dull",), 0)],
    }
    held_out = imdb_rationales.read_imdb_rationales(place, hold_out=True)
    assert held_out["test"] == splits["train"][:1] and held_out["dev"] == splits["dev"]
    assert held_out["train"] == [splits["train"][1], *splits["test"]]
    assert imdb_rationales.counts(place) == {
        "documents": 1,
        "spans": 2,
        "spans found in the text": 2,
        "paired documents": 8,
    }


def test_a_span_that_is_not_in_the_text_is_counted_and_an_empty_list_is_a_rationale(tmp_path):
    human = [{"negative_1.txt": [{"text": "goodness", "start_token": 0}]}, {"tid": "7", "positive_2.txt": []}]
    place = unpacked(tmp_path, imdb_files(human, BAD, LONG))
    counts = imdb_rationales.counts(place)
    assert (counts["documents"], counts["spans"], counts["spans found in the text"]) == (2, 1, 0)
    assert all(not any(e.rationale) for e in imdb_rationales.read_imdb_rationales(place)["train"])


def test_the_annotated_one_of_a_pair_is_read_where_it_comes_second(tmp_path):
    place = unpacked(tmp_path, imdb_files([{"negative_2.txt": []}], LONG))
    assert imdb_rationales.read_imdb_rationales(place)["train"] == [Example(("hated", "it"), 0, (False, False))]


@pytest.mark.parametrize(
    "rows, line, what",
    [
        (["Mixed\tword\t1"], 4, "accepted: Sentiment (Positive or Negative), Text and batch_id with tabs"),
        (["Positive\tword\t"], 4, "accepted: Sentiment"),
        (["Positive\t\t1"], 4, "accepted: Sentiment"),
        (["Positive\tword"], 4, "accepted: Sentiment"),
        (["Positive\tword\t1", "Negative\tword\t2"], 5, "in pairs of a batch_id"),
        (["Positive\tword\t1"], 4, "only one review of batch_id 1; accepted: pairs"),
    ],
)
def test_a_malformed_review_of_imdb_is_named_by_file_and_line(tmp_path, rows, line, what):
    files = imdb_files([], LONG)
    name = "cad/train_paired.tsv.xz"
    files[name] = lzma.compress(b"\n".join([lzma.decompress(files[name]), *(row.encode() for row in rows)]))
    place = unpacked(tmp_path, files)
    refused(lambda: imdb_rationales.read_imdb_rationales(place), f"train_paired.tsv.xz:{line}: ", what)


def test_malformed_spans_are_named(tmp_path):
    read = imdb_rationales.read_imdb_rationales
    for human in ([{"tid": "1"}], [{"negative-1.txt": []}], [{"negative_1.txt": [{"text": "a"}]}], [3], 5, None):
        place = unpacked(tmp_path, imdb_files(human, BAD))
        refused(lambda place=place: read(place), "all.json: ", 'accepted: a list of {"negative_1006.txt": [{"text"')
    (tmp_path / "rdl/datasets/IMDb/human_labelled/all.json").write_text("[\n{]")
    refused(lambda: read(tmp_path), "all.json:2: '{]' is not JSON")
    place = unpacked(tmp_path, imdb_files([{"negative_77.txt": []}], BAD))
    refused(lambda: read(place), "no review for the spans of ('negative', '77')")


def large_imdb(**changes: str) -> dict[str, bytes]:
    """The official files of the large data set in small; `changes` are the texts of reviews."""
    names = {"train/neg/0_2": "Bad.<br /><br />Didn't like it", "train/pos/7_9": "Good", "train/neg/11250_1": "Dull",
             "train/pos/11250_8": "Fine", "test/pos/3_10": "Great", "test/neg/3_1": "Awful",
             "train/unsup/0_0": "Nobody knows", "train/neg/5_1": "Poor"}  # fmt: skip
    return {f"aclImdb/{name}.txt": text.encode() for name, text in (names | changes).items()}


def test_the_large_imdb_has_its_official_test_split_and_the_last_reviews_of_train_are_dev(tmp_path):
    splits = imdb.read_imdb(unpacked(tmp_path, large_imdb()))
    assert splits == {
        "train": [
            Example(tuple("bad . did n't like it".split()), 0),
            Example(("good",), 1),
            Example(("poor",), 0),
        ],
        "dev": [Example(("dull",), 0), Example(("fine",), 1)],
        "test": [Example(("awful",), 0), Example(("great",), 1)],
    }


def test_a_review_of_the_large_imdb_without_words_and_a_missing_split_are_refused(tmp_path):
    place = unpacked(tmp_path / "empty", large_imdb(**{"test/neg/3_1": " <br />"}))
    refused(lambda: imdb.read_imdb(place), "aclImdb/test/neg/3_1.txt: no words; accepted: a review")
    files = {name: text for name, text in large_imdb().items() if "11250" not in name}
    refused(lambda: imdb.read_imdb(unpacked(tmp_path / "two", files)), "dev")


@pytest.mark.deep
@pytest.mark.data
def test_the_large_imdb_has_its_published_counts():
    needs("imdb")
    splits = imdb.read_imdb()
    assert {name: len(part) for name, part in splits.items()} == {"train": 22500, "dev": 2500, "test": 25000}
    assert all(sum(e.label for e in part) * 2 == len(part) for part in splits.values())


@pytest.mark.data
def test_imdb_has_its_published_counts():
    needs("imdb_rationales")
    splits = imdb_rationales.read_imdb_rationales()
    assert sizes(splits) == (1707, 245, 488)
    annotated = [e for e in splits["train"] if e.rationale is not None]
    assert Counter(e.label for e in annotated) == {0: 414, 1: 441}
    assert sum(not any(e.rationale) for e in annotated) == 3
    assert gold_rate(annotated) == pytest.approx(0.043, abs=5e-4)
    assert not any(e.rationale is not None for split in ("dev", "test") for e in splits[split])


# --- pairs of sentences


SNLI = (
    '{"gold_label": "neutral", "sentence1": "A man plays.", "sentence2": "He sings.", '
    '"sentence1_binary_parse": "( ( A man ) ( plays . ) )", "sentence2_binary_parse": "( He ( sings . ) )"}\n'
    '{"gold_label": "-", "sentence1": "x", "sentence2": "y", "sentence1_binary_parse": "x", '
    '"sentence2_binary_parse": "y"}\n'
)


def official_snli(folder, test=SNLI):
    for split in ("train", "dev"):
        (folder / f"snli_1.0_{split}.jsonl").write_text(SNLI)
    (folder / "snli_1.0_test.jsonl").write_text(test)
    return folder


def test_snli_gives_the_leaves_of_its_trees_and_drops_pairs_without_a_label(tmp_path):
    splits = snli.read_snli(official_snli(tmp_path))
    assert {name: len(part) for name, part in splits.items()} == {"train": 1, "dev": 1, "test": 1}
    pair = splits["test"][0]
    assert pair.tokens == ("@@NULL@@", "A", "man", "plays", ".")
    assert pair.second == ("@@NULL@@", "He", "sings", ".") and pair.label == 2
    assert snli.read_snli(tmp_path, null=False)["dev"][0].tokens[0] == "A"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ('{"sentence1": "a", "sentence2": "b"}', "gold_label"),
        ('{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}', "'maybe'; accepted: entailment"),
        ('{"gold_label": "neutral", "sentence1": " ", "sentence2": "b"}', "an empty sentence"),
        ('["neutral"]', "TypeError"),
    ],
)
def test_a_malformed_pair_names_file_and_line(tmp_path, line, said):
    official_snli(tmp_path, test=SNLI + line + "\n")
    with pytest.raises(BadInput, match=rf"snli_1.0_test.jsonl:3: .*{said}"):
        snli.read_snli(tmp_path)


def test_missing_pairs_say_how_to_get_them(tmp_path):
    with pytest.raises(BadInput, match="snli: not in .*snli_1.0_train.jsonl.*fetch snli"):
        snli.read_snli(tmp_path)


def test_words_without_a_vector_share_rows_and_every_row_has_length_1(tmp_path):
    (tmp_path / "v.txt").write_text("man 3 4\nplays 0 2\n")
    splits = snli.read_snli(official_snli(tmp_path))
    vocabulary, table = build_pair_vocabulary(splits, str(tmp_path / "v.txt"))
    rows = {word: table[vocabulary.encode([word])[0]] for word in ("man", "A", "sings", "@@NULL@@")}
    assert rows["man"].tolist() == pytest.approx([0.6, 0.8])
    norms = table.norm(dim=1)
    assert norms[vocabulary.pad] == 0 and torch.allclose(norms[norms > 0], torch.ones(len(table) - 1))
    assert not torch.equal(rows["A"], rows["@@NULL@@"])
    again, same = build_pair_vocabulary(splits, str(tmp_path / "v.txt"))
    assert torch.equal(table, same) and again.words == vocabulary.words


@pytest.mark.data
def test_the_small_collection_of_pairs_has_the_counts_of_its_readme():
    splits = nli_small.read_nli_small()
    assert {name: len(part) for name, part in splits.items()} == {"train": 64974, "dev": 1972, "test": 9824}
    labels = [sum(pair.label == k for pair in splits["test"]) for k in range(3)]
    assert labels == [3368, 3237, 3219]
    premises = {pair.tokens for pair in splits["train"]}
    assert not premises & {pair.tokens for pair in splits["dev"]}
    shared = [" ".join(pair.tokens[1:]) for pair in splits["test"] if pair.tokens in premises]
    assert shared == ["A dog catching a Frisbee ."] * 3, "one premise of the test set is in train"


# --- texts with a target text


def captions(folder, german="Ein Hund.\nZwei Katzen!\n", english="A dog.\nTwo cats!\n"):
    for name in ("train", "val", "test_2016_flickr"):
        for code, text in (("de", german), ("en", english)):
            (folder / f"{name}.{code}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_captions_are_pairs_of_lower_case_tokens_with_an_end(tmp_path):
    found = multi30k.read_captions("de", captions(tmp_path))
    assert found.splits["train"][1].tokens == ("zwei", "katzen", "!")
    assert found.splits["train"][1].second == ("two", "cats", "!", "</s>")
    assert found.references["test"] == [["a dog ."], ["two cats !"]] and "train" not in found.references
    assert len(multi30k.read_captions("de", tmp_path, max_tokens=2).splits["train"]) == 0, "all have three words"


def test_captions_that_do_not_match_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"train.\*: 2 lines in de, 1 in en; accepted: pairs"):
        multi30k.read_captions("de", captions(tmp_path, english="A dog.\n"))
    with pytest.raises(BadInput, match="language: 'it' is unknown; accepted: de, fr, cs"):
        multi30k.read_captions("it", tmp_path)
    with pytest.raises(BadInput, match="multi30k: not in .*train.fr.gz"):
        multi30k.read_captions("fr", tmp_path)


MAIL = (
    "Hi Ann,  the meeting is at 9:00.\n@ 10 we leave.\nBye\n\n"
    "@subject\nMeeting at 9\n\n@ann0\nmeeting time\n\n@ann1\nmeeting\n"
)


def test_mails_have_a_body_and_the_senders_and_the_annotators_subjects(tmp_path):
    body, subjects = aeslc.parse_mail(MAIL)
    assert body[:4] == ["hi", "ann", ",", "the"] and "@subject" not in body
    assert "leave" in body, "a line that begins with @ belongs to the body"
    assert subjects == [["meeting", "at", "9"], ["meeting", "time"], ["meeting"]]
    for split in ("train", "dev", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.subject").write_text(MAIL)
    found = aeslc.read_mails(tmp_path, max_tokens=5, max_subject=2)
    assert found.splits["train"][0].second == ("meeting", "at", "</s>")
    assert len(found.splits["dev"][0].tokens) == 5 and found.splits["dev"][0].second[:-1] == ("meeting", "at", "9")
    assert found.references["dev"] == [["meeting at 9", "meeting time", "meeting"]]
    (tmp_path / "dev" / "b.subject").write_text("@subject\nnothing\n")
    with pytest.raises(BadInput, match="dev/b.subject: no body or no subject"):
        aeslc.read_mails(tmp_path)


def test_a_subject_of_a_mail_that_is_empty_is_not_the_mark_of_the_next_one():
    assert aeslc.parse_mail("Hi Ann\n@subject\nhello\n@ann0\n@ann1\nto ann\n")[1] == [["hello"], ["to", "ann"]]
    with pytest.raises(BadInput, match="a.subject: no body or no subject"):
        aeslc.parse_mail("Hi Ann\n@subject\n@ann0\nto ann\n", "a.subject")


def headlines(folder: Path) -> Path:
    for number, (source, targets) in enumerate((sumdata.TRAIN, sumdata.DEV, gigaword.TEST, duc2004.TEST)):
        for i, name in enumerate((source, *targets)):
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"Text {number} of side {i} .\n\u00e9t\u00e9 in # words .\n", encoding="utf-8")
    return folder


def test_headlines_are_read_in_the_layout_of_their_publisher(tmp_path):
    found = gigaword.read_gigaword(headlines(tmp_path))
    assert found.splits["train"][0].tokens == ("text", "0", "of", "side", "0", ".")
    assert found.splits["train"][1].second == ("\u00e9t\u00e9", "in", "#", "words", ".", "</s>")
    assert found.references["test"][0] == ["text 2 of side 1 ."] and "train" not in found.references
    four = duc2004.read_duc2004(tmp_path)
    assert four.references["test"][0] == [f"text 3 of side {i} ." for i in (1, 2, 3, 4)]
    packed = tmp_path / "train" / "train.title.txt"
    packed.with_name("train.title.txt.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    assert gigaword.read_gigaword(tmp_path).splits == found.splits, "packed or not"


def test_headlines_that_do_not_match_are_refused(tmp_path):
    with pytest.raises(BadInput, match="sumdata: not in .*train.article.txt"):
        gigaword.read_gigaword(tmp_path)
    headlines(tmp_path)
    (tmp_path / "Giga" / "task1_ref0.txt").write_text("one\n")
    with pytest.raises(BadInput, match="task1_ref0.txt: 1 lines, Giga/input.txt has 2; accepted: one line each"):
        gigaword.read_gigaword(tmp_path)
    (tmp_path / "Giga" / "task1_ref0.txt").write_text("one\n\n")
    with pytest.raises(BadInput, match="task1_ref0.txt:2: an empty line"):
        gigaword.read_gigaword(tmp_path)


def test_a_count_that_leaves_no_word_is_refused_with_the_largest_that_does(tmp_path):
    train = multi30k.read_captions("de", captions(tmp_path)).splits["train"]
    assert len(build_text_vocabularies(train, 1)[0]) > 2
    refused(
        lambda: build_text_vocabularies(train, 10**9), "min_count: 1000000000 leaves no word", "accepted: at most 1"
    )


def test_the_end_of_a_target_is_known_even_if_there_are_fewer_texts_than_a_word_has_to_occur():
    train = [Example(("a", "a", "a"), 0, second=("x", "x", "y", END)), Example(("b",), 0, second=("x", END))]
    sources, targets = build_text_vocabularies(train, 3)
    assert sources.words == ["<unk>", "<pad>", "a"] and targets.words == ["<unk>", "<pad>", END, "x"]


def test_vectors_without_any_word_of_the_pairs_are_refused(tmp_path):
    (tmp_path / "v.txt").write_text("zebra 1 2\n")
    pairs = {"train": [Example(("a", "dog"), 0, second=("it", "runs"))]}
    refused(lambda: build_pair_vocabulary(pairs, str(tmp_path / "v.txt")), "holds none of the 4 words")


@pytest.mark.parametrize("damage", ["{word}", "({word}", "(2 {word}", "(2 a) {word}", "(2 {word})))", "(9{word} a)"])
def test_a_message_quotes_80_characters_of_a_line_of_a_megabyte(tmp_path, damage):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text(damage.replace("{word}", "x" * 1_000_000))
    message = refused(lambda: sst.read_sst(tmp_path), "train.txt:1: ")
    assert len(message) < 300 + len(str(tmp_path)), f"{len(message)} characters"


@pytest.mark.deep
@pytest.mark.data
def test_captions_and_mails_have_the_counts_of_their_readme():
    found = multi30k.read_captions("fr")
    assert [len(found.splits[name]) for name in ("train", "dev", "test")] == [29000, 1014, 1000]
    found = aeslc.read_mails()
    assert [len(found.splits[name]) for name in ("train", "dev", "test")] == [14436, 1960, 1906]
    assert max(len(some) for some in found.references["test"]) > 1, "several people wrote a subject"
