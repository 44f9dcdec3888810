"""Look at every page in a browser: ``python docs/check_pages.py build/html``.

Each page is opened in headless Chromium at 1280, 1440 and 390 pixels, light, and at
1280 pixels dark. Nothing may be wider than the window. Code and tables have to fit
without scrolling, except for tables of plain text on a telephone. Names must not break
inside a word. Text needs a contrast of
4.5 : 1 (3 : 1 where it is large: WCAG 2.1, 1.4.3). Pictures of the pages go to the
folder ``--shots``, to be looked at. It needs ``pip install playwright`` and a Chromium,
which ``--browser`` names if it is not playwright's own; so CI does not run it.
"""

import argparse
import sys
from pathlib import Path

VIEWS = {
    "1280": (1280, 900, "light"),
    "1440": (1440, 900, "light"),
    "390": (390, 844, "light"),
    "dark": (1280, 900, "dark"),
}
#: Taller pages are cut in the pictures; they are checked whole.
MOST_SHOWN = 12_000

# What is wider than the window, or cut at its edge, unless something smaller than a
# column of the page scrolls around it, as code and tables do.
OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const whole = document.documentElement.scrollWidth;
  const scrolls = one => {
    for (let up = one; up && up !== document.body; up = up.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)
          && !up.matches('[class*=bd-]')) return true;
    return false;
  };
  const seen = {opacityProperty: true, visibilityProperty: true};
  const found = [...document.body.querySelectorAll('*')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.right > wide + 1 && box.left < wide && box.left >= 0
      && one.checkVisibility(seen) && !scrolls(one);
  }).map(one => one.tagName.toLowerCase() + '.' + one.className);
  if (whole <= wide && !found.length) return [];
  return [`${whole} pixels: ${[...new Set(found)].slice(0, 4).join(', ')}`];
}"""

# Code and tables that the reader would have to scroll to the side.
SCROLLS = """() => {
  const box = 'pre, .pst-scrollable-table-container, div.output_subarea';
  return [...document.querySelectorAll(box)].filter(one =>
    one.checkVisibility({visibilityProperty: true})
    && one.scrollWidth > one.clientWidth + 1
    && !(window.innerWidth < 720 && one.closest('.aligned'))
  ).map(one => {
    const kind = one.matches('pre, .output_subarea') ? 'code' : 'table';
    const lines = one.innerText.split('\\n');
    const text = lines.reduce((a, b) => b.length > a.length ? b : a, '').trim();
    const more = one.scrollWidth - one.clientWidth;
    return `${kind}, ${more} pixels too wide: ${text.slice(0, 60)}`;
  });
}"""

# Names that the browser breaks where no word ends.
BROKEN = """() => {
  const found = new Set();
  const whole = 'h1, h2, h3, h4, a, code, dt, td, th, p, li';
  const main = document.querySelector('.bd-container') || document.body;
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, up = node.parentElement;
    if (!up.closest(whole) || up.closest('pre, math, svg')) continue;
    if (!up.checkVisibility({visibilityProperty: true})) continue;
    for (const word of node.textContent.matchAll(/[A-Za-z0-9]{2,}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()]
        .filter(box => box.width > 0).map(box => Math.round(box.top)));
      if (tops.size > 1) found.add(`${word[0]} in ${up.tagName.toLowerCase()}`);
    }
  }
  return [...found];
}"""

CONTRAST = """() => {
  const parse = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return found.length < 4 ? [...found.slice(0, 3), 1] : found;
  };
  const over = (top, below) => {
    const mix = i => top[3] * top[i] + (1 - top[3]) * below[i];
    return [mix(0), mix(1), mix(2), 1];
  };
  const light = rgb => {
    const [r, g, b] = rgb.slice(0, 3).map(v => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = one => {
    const layers = [];
    for (let up = one; up; up = up.parentElement) {
      const colour = parse(getComputedStyle(up).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
    const paper = dark ? [0, 0, 0, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((below, top) => over(top, below), paper);
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim();
    const one = walk.currentNode.parentElement;
    const seen = {opacityProperty: true, visibilityProperty: true};
    if (!text || !one.checkVisibility(seen)) continue;
    const style = getComputedStyle(one);
    if (one.getBoundingClientRect().width < 2 || style.color === 'rgba(0, 0, 0, 0)')
      continue;
    const below = behind(one);
    const above = over(parse(style.color), below);
    const [a, b] = [light(above), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
    const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (ratio < least - 0.005) {
      const where = one.tagName.toLowerCase() + '.' + one.className;
      found.add(`${ratio.toFixed(2)} : 1 in ${where}: ${text.slice(0, 30)}`);
    }
  }
  return [...found].slice(0, 6);
}"""


def problems(page, path: Path) -> list[str]:
    """Open a page, and return what is wrong."""
    page.goto(path.as_uri(), wait_until="load")
    found = [f"overflow: {text}" for text in page.evaluate(OVERFLOW)]
    found += [f"scrolls: {text}" for text in page.evaluate(SCROLLS)]
    found += [f"broken word: {text}" for text in page.evaluate(BROKEN)]
    found += [f"contrast: {text}" for text in page.evaluate(CONTRAST)]
    return found


def picture(page, path: Path, view: str, shots: Path) -> None:
    """Keep a picture of the open page."""
    width = page.viewport_size["width"]
    height = min(MOST_SHOWN, page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": height}
    name = "-".join(path.with_suffix("").parts[-2:])
    page.screenshot(path=shots / f"{name}-{view}.png", clip=clip, full_page=True)


def main(argv=None) -> int:
    """Print what is wrong; return 1 if anything is."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the folder of the built site")
    parser.add_argument("--shots", type=Path, help="where pictures go")
    parser.add_argument("--browser", help="path of a Chromium")
    parser.add_argument("--code", action="store_true", help="pages of code, too")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=[*VIEWS])
    parser.add_argument("--only", default="", help="pages with this in their path")
    arguments = parser.parse_args(argv)
    root = arguments.root.resolve()
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    left_out = {"_static"} | ({"_modules"} if not arguments.code else set())
    pages = [
        path
        for path in sorted(root.rglob("*.html"))
        if path.relative_to(root).parts[0] not in left_out
        and arguments.only in str(path.relative_to(root))
    ]
    count = 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=arguments.browser)
        for view in arguments.views:
            width, height, scheme = VIEWS[view]
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            for path in pages:
                for text in problems(page, path):
                    count += 1
                    print(f"{path.relative_to(root)} ({view}): {text}", flush=True)
                if arguments.shots:
                    picture(page, path, view, arguments.shots)
            page.close()
        browser.close()
    print(f"{len(pages)} pages in {len(arguments.views)} views: {count} problems")
    return int(count > 0 or not pages)


if __name__ == "__main__":
    sys.exit(main())
