"""Beautiful Soup's trees, encoded and decoded."""

import pytest

import holdfast
from holdfast.store import Error

bs4 = pytest.importorskip("bs4")

PAGE = """<!DOCTYPE html><html><head><meta charset="utf8"><script>1 &lt; 2</script></head>
<body><p class="a b" id=x>One <b>two</b><!-- three --></p><p>four</p></body></html>"""


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


@pytest.fixture
def soup():
    return bs4.BeautifulSoup(PAGE, "html.parser")


def test_a_tag_is_in_its_soup(soup):
    tag, text, copy, found = crossed((soup.b, soup.b.string, soup, soup.find_all("p")))
    assert copy.decode() == soup.decode() and type(copy) is bs4.BeautifulSoup
    assert copy.b is tag and tag.string is text and type(text) is type(soup.b.string)
    assert copy.find_all("p")[1] is found[1]
    tag["id"] = "second"
    text.replace_with("2")
    found[1].decompose()
    assert copy.p.decode() == '<p class="a b" id="x">One <b id="second">2</b><!-- three --></p>'
    assert len(copy.find_all("p")) == 1


def test_elements_are_as_they_were(soup):
    before, after = (
        [(type(one), str(one), type(one.next_element)) for one in root.descendants]
        for root in (soup, crossed(soup))
    )
    assert before == after
    copy = crossed(soup)
    assert copy.original_encoding == soup.original_encoding and copy.p["class"] == ["a", "b"]
    assert copy.encode("latin-1") == soup.encode("latin-1")  # which changes the charset
    copy.body.append(copy.new_tag("hr"))
    assert copy.decode().endswith("<hr/></body></html>")


def test_a_tag_alone_brings_its_soup_and_a_taken_one_does_not(soup):
    assert crossed([soup.b])[0].find_parent("html").head is not None
    taken = soup.b.extract()
    copy, rest = crossed((taken, soup))
    assert copy.parent is None and copy.string == "two" and rest.b is None
    rest.body.append(copy)
    assert rest.b is copy


def test_a_long_and_deep_document():
    soup = bs4.BeautifulSoup(
        "<div>" * 3000 + "x" + "</div>" * 3000 + "<p></p>" * 3000, "html.parser"
    )
    copy, last = crossed((soup, soup.find_all("p")[-1]))
    assert len(list(copy.descendants)) == 6001 and copy.find_all("p")[-1] is last


def test_a_class_that_says_how_it_is_pickled():
    class Own(bs4.element.Comment):
        def __reduce__(self):
            return str, ("own",)

    soup = bs4.BeautifulSoup("<p></p>", "html.parser")
    soup.p.append(Own("x"))
    with pytest.raises(Error, match="with __reduce__"):
        crossed(soup)
