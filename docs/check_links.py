"""Check of the links of the built site: ``python docs/check_links.py build/html``.

Every link to a page, a file, or a place on a page has to lead somewhere. Links to other
sites are not followed: ``--external`` lists them, with the pages that they are on.
"""

import argparse
import collections
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that name a file or a page.
LINKS = {("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")}
#: What the theme links on every page, and no reader clicks.
NOT_PAGES = ("data:", "mailto:", "javascript:")


class Page(HTMLParser):
    """The links of a page, and the places that links may lead to."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Keep what links, and what is linked."""
        for name, value in attrs:
            if (tag, name) in LINKS and value:
                self.links.append(value)
            elif name == "id" or (tag, name) == ("a", "name"):
                self.places.add(value)


def pages(root: Path) -> dict[Path, Page]:
    """Read all pages of the site."""
    return {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.html"))
        if path.relative_to(root).parts[0] != "_static"  # templates of the theme
    }


def broken(root: Path, found: dict[Path, Page]) -> list[str]:
    """Return a line for every link within the site that leads nowhere."""
    lines = []
    for path, page in found.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith(NOT_PAGES):
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            target = path if not parts.path else target
            target = target / "index.html" if target.is_dir() else target
            here = path.relative_to(root.resolve())
            if not target.is_file():
                lines.append(f"{here}: {link}: no such file")
            elif parts.fragment and target in found:
                if unquote(parts.fragment) not in found[target].places:
                    lines.append(f"{here}: {link}: no such place on that page")
    return lines


def external(root: Path, found: dict[Path, Page]) -> dict[str, list[str]]:
    """Return the pages of each link to another site."""
    links = collections.defaultdict(list)
    for path, page in found.items():
        for link in dict.fromkeys(page.links):
            if urlsplit(link).netloc:
                links[link].append(str(path.relative_to(root.resolve())))
    return dict(sorted(links.items()))


def main(argv=None) -> int:
    """Print what is wrong; return 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the folder of the built site")
    parser.add_argument("--external", action="store_true", help="list other sites")
    arguments = parser.parse_args(argv)
    found = pages(arguments.root)
    if arguments.external:
        for link, where in external(arguments.root, found).items():
            print(
                f"{link} ({where[0]}{f' and {len(where) - 1} more' * (len(where) > 1)})"
            )
    lines = broken(arguments.root, found)
    n_links = sum(len(page.links) for page in found.values())
    n_sites = len(external(arguments.root, found))
    print(*lines, sep="\n", end="\n" * bool(lines))
    print(
        f"{len(found)} pages, {n_links} links, {len(lines)} of them broken; "
        f"{n_sites} addresses elsewhere, not followed"
    )
    return int(bool(lines) or not found)


if __name__ == "__main__":
    sys.exit(main())
