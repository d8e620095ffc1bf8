from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.html_report.markup import Markup, breakable, element, join, text_of_log
from tensorclass.support.printable import printable


class Parsed(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


hostile = st.text(st.sampled_from("<>&\"'/=` \n\x00\x1b\u202eabscript-_:é模\ud800"), max_size=30) | st.text(max_size=30)


@given(hostile)
def test_any_text_stays_text_in_content_and_attributes(text: str) -> None:
    for made in (element("p", text, title=text), element("p", join([text]), title=text)):
        parsed = Parsed(made)
        assert parsed.tags == ["p"]
        assert parsed.attributes == [("title", printable(text))]
        assert parsed.text == printable(text)
        made.encode("utf-8")


@given(hostile)
def test_names_and_texts_of_logs_stay_text(text: str) -> None:
    assert set(Parsed(breakable(text)).tags) <= {"wbr"}
    assert Parsed(breakable(text)).text == printable(text)
    assert Parsed(text_of_log(text)).tags == []
    text_of_log(text).encode("utf-8")


def test_markup_is_not_escaped_again() -> None:
    assert element("p", element("b", "a < b"), Markup("<br>")) == "<p><b>a &lt; b</b><br></p>"


def test_attributes_without_value_and_left_out() -> None:
    assert element("details", open=True, class_=None, hidden=False, data_x=0) == '<details open data-x="0"></details>'


def test_texts_keep_lines_and_tabs_and_escape_commands_of_terminals() -> None:
    assert text_of_log("a\r\n\tb\x1b[31m\u202e") == "a\n\tb\\x1b[31m\\u202e"
