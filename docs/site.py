"""MkDocs' hooks: what the site needs that the pages, as GitHub shows them, don't.

ARCHITECTURE.md and the examples lie outside of docs/, so they are added to the site, and the links
to them follow. In a table GitHub wants a bar in code as `\\|`; Python-Markdown wants it plain. GitHub chooses a
picture by the system's colours; on the site the reader may choose others than the system's.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(r"`[^`\n]+`")
PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)" alt="([^"]*)">\s*</picture>'
)
OUTSIDE = re.compile(r"\]\((?:\.\./)+(ARCHITECTURE\.md|README\.md|examples)")


def outside():
    """The files that are added: their paths, from the root."""
    yield Path("ARCHITECTURE.md")
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT)


def on_files(files, config):
    """Add the files from outside of docs/."""
    for path in outside():
        files.append(File(str(path), str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    """Mend links and bars."""
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri == "ARCHITECTURE.md":
        markdown = markdown.replace("](docs/", "](")
    markdown = OUTSIDE.sub(rf"]({up}\1", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+docs/", f"]({up}", markdown)
    markdown = re.sub(r"\[([^]]+)\]\((?:\.\./)+serializers/[^)]+\)", r"\1", markdown)
    # A folder is no page: GitHub shows its README.md.
    markdown = re.sub(r"(\]\([./]*examples/\w+)\)", r"\1/README.md)", markdown)
    markdown = PICTURE.sub(r"![\3](\2#only-light)\n![\3](\1#only-dark)", markdown)
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), markdown)
