"""The page on which one chooses among the results, in a real browser, from a file and without a network."""

import csv
from pathlib import Path

import pytest

from rationale.runs import root
from rationale.runs.committed import reference_folder
from tests import browser
from tests.browser import Visit
from tools.book.choose import choose_page, results_data

pytestmark = pytest.mark.browser

# Chooses every corpus, split and measure, one after another, and reads the table below each picture.
ALL_TABLES = """() => {
    const menu = name => document.querySelector(`select[name=${name}]`), rows = [];
    const choose = (name, value) => { menu(name).value = value; menu(name).dispatchEvent(new Event("change")); };
    const options = name => [...menu(name).options].map(option => option.value);
    for (const corpus of options("corpus")) {
        choose("corpus", corpus);
        for (const split of options("split")) {
            choose("split", split);
            for (const measure of options("measure")) {
                choose("measure", measure);
                const lines = [...document.querySelectorAll("#choose table tr")].slice(1);
                const dots = document.querySelectorAll("#choose circle").length;
                if (dots !== lines.length) throw new Error(`${dots} dots, ${lines.length} lines`);
                for (const line of lines) {
                    const [run, model, rate, seed, value] = [...line.children].map(cell => cell.textContent);
                    rows.push([corpus, split, measure, run, model, seed, value]);
                }
            }
        }
    }
    return rows;
}"""
CHOOSE = """([name, value]) => {
    const menu = document.querySelector(`select[name=${name}]`);
    menu.value = value;
    menu.dispatchEvent(new Event("change"));
    return menu.value;
}"""

ON_TOP = "([x, y, n]) => document.elementFromPoint(x, y) === document.querySelectorAll('#choose circle')[n]"


SIZES = [
    pytest.param(browser.PROJECTOR, id="projector"),
    pytest.param(browser.PHONE, id="phone", marks=pytest.mark.deep),
]


@pytest.fixture(params=SIZES)
def visit(started, request, tmp_path):
    visit = Visit(started, request.param)
    visit.page.goto(page_alone(tmp_path).as_uri())
    visit.page.wait_for_selector("#choose circle")
    yield visit
    assert not visit.complaints, "\n".join(visit.complaints)


def page_alone(folder: Path) -> Path:
    """The page without the rest of the book."""
    style, script = ((root() / "tools" / "book" / name).read_text("utf-8") for name in ("book.css", "choose.js"))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{style}</style>'
    page = folder / "page.html"
    page.write_text(f"<!doctype html><head>{head}</head>{choose_page()}<script>{script}</script>", "utf-8")
    return page


def test_every_committed_row_can_be_reached_and_shows_the_number_of_the_file(visit):
    with open(reference_folder() / "results.csv", encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    expected = [
        [f"{row['task']}: {', '.join(filter(None, (row['corpus'], row['aspect'])))}", row["split"], row["metric"],
         row["run"], row["model"], row["seed"], row["value"]]
        for row in rows
    ]  # fmt: skip
    assert sorted(visit.page.evaluate(ALL_TABLES)) == sorted(expected)


def test_a_dot_tells_its_run_and_the_command_by_mouse_and_by_keyboard(visit):
    page, data = visit.page, results_data()
    page.evaluate(CHOOSE, ["corpus", "sst: sst"])

    def told() -> str:
        return page.locator("#choose .facts").inner_text()

    def units_of(model: str, rate: str) -> list[dict]:
        assert [page.evaluate(CHOOSE, ["model", model]), page.evaluate(CHOOSE, ["rate", rate])] == [model, rate]
        found = [unit for unit in data["units"] if unit["task"] == "sst" and unit["model"] == model]
        return [unit for unit in found if rate in ("all", unit["rate"])]

    [alone] = units_of("attention", "all")
    page.locator("#choose circle").hover()
    assert alone["run"] in told() and alone["values"]["test"]["accuracy"] in told()
    assert page.locator("#choose pre").inner_text() == data["commands"][alone["run"]]
    first, second, *_ = units_of("hardkuma", "40%")
    page.locator(f'#choose circle[aria-label^="{first["run"]},"]').focus()
    assert first["run"] in told()
    page.keyboard.press("Enter")
    page.locator(f'#choose circle[aria-label^="{second["run"]},"]').focus()
    assert first["run"] in told(), "Enter, like a click, keeps a run in view"
    page.keyboard.press("Enter")
    assert second["run"] in told()


def test_the_mouse_and_the_tab_key_reach_every_dot_with_its_run_and_command(visit):
    page, data = visit.page, results_data()
    page.evaluate(CHOOSE, ["corpus", "sst: sst"])
    page.evaluate(CHOOSE, ["model", "hardkuma"])
    page.evaluate(CHOOSE, ["rate", "25%"])
    dots = page.locator("#choose circle")
    names = [dots.nth(number).get_attribute("aria-label").split(",")[0] for number in range(dots.count())]
    assert len(names) > 2 and set(names) <= set(data["commands"])

    def shown() -> tuple[str, str]:
        return page.locator("#choose dd").first.inner_text(), page.locator("#choose pre").inner_text()

    page.locator("select[name=rate]").focus()
    for name in names:
        page.keyboard.press("Tab")
        assert shown() == (name, data["commands"][name])
    places = [dots.nth(number).bounding_box() for number in range(dots.count())]
    for number, (name, place) in enumerate(zip(names, places, strict=True)):
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        if page.evaluate(ON_TOP, [x, y, number]):
            page.mouse.move(x, y)
            assert shown() == (name, data["commands"][name])
