"""MkDocs hook: links that leave `docs/` work on the site as they do in the repository, whose address the site has.

A linked file outside `docs/` becomes part of the site under `repository/`, with the path it has in the repository:
Markdown as a page, anything else as it is. Links are rewritten to match. A link to something that does not exist, or to
a folder, is left alone, and the strict build then fails on it.
"""

import os
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "repository"
LINK = re.compile(r"\]\(([^()#:\s]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Link to the repository, once `pyproject.toml` has its address."""
    settings = tomllib.loads((repository(config) / "pyproject.toml").read_text(encoding="utf-8"))
    address = settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    if address:
        config.repo_url, config.repo_name = address, "wordle-rl"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside `docs/` that pages link to, and those that they link to in turn."""
    waiting = [Path(page.abs_src_path) for page in files.documentation_pages() if page.abs_src_path]
    while waiting:
        source = waiting.pop()
        for link in LINK.findall(source.read_text(encoding="utf-8")):
            path = linked_file(source, link, config)
            uri = path and site_uri(path, config)
            if uri and uri.startswith(f"{FOLDER}/") and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(path)))
                waiting += [path] if path and path.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of one page to where their files are on the site."""
    source = page.file.abs_src_path
    if source is None:
        return markdown

    def rewritten(match: re.Match[str]) -> str:
        path = linked_file(Path(source), match[1], config)
        uri = path and site_uri(path, config)
        if not uri or files.get_file_from_path(uri) is None:
            return match[0]
        return "](" + os.path.relpath(uri, os.path.dirname(page.file.src_uri) or ".").replace(os.sep, "/")  # noqa: PTH120

    return LINK.sub(rewritten, markdown)


def linked_file(source: Path, link: str, config: MkDocsConfig) -> Path | None:
    """The file of the repository that a link leads to, or None."""
    path = (source.parent / link).resolve()
    return path if path.is_file() and path.is_relative_to(repository(config)) else None


def site_uri(path: Path, config: MkDocsConfig) -> str:
    """Place of a repository file on the site, before Markdown becomes HTML."""
    docs = Path(config.docs_dir).resolve()
    if path.is_relative_to(docs):
        return path.relative_to(docs).as_posix()
    return f"{FOLDER}/{path.relative_to(repository(config)).as_posix()}"


def repository(config: MkDocsConfig) -> Path:
    """The folder of `mkdocs.yml`."""
    return Path(config.config_file_path).resolve().parent
