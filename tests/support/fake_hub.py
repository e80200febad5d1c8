"""A model hub on this machine: it takes commits of small files, and hands out what it has, as huggingface_hub asks."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

from fake_endpoint import Answer, LocalServer

SHA = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(LocalServer):
    """Repositories by name, each a dict of files; the titles of all commits; the status with which it refuses any."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.commits: list[tuple[str, str]] = []
        self.refuses = 0
        super().__init__()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        del headers
        if method == "POST":
            return self._post(path, body)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/[^/?]+(\?.*)?", path):
            siblings = [{"rfilename": name} for name in self.repos.get(found[1], ())]
            about = {"id": found[1], "sha": SHA, "siblings": siblings}
            return (200, about) if found[1] in self.repos else _absent("Repo")
        if found := re.fullmatch(r"/api/(?:models|datasets)/([^/]+/[^/]+)/tree/[^/?]+(/.*)?(\?.*)?", path):
            files = self.repos.get(found[1], {})
            rows = [{"type": "file", "path": name, "size": len(held), "oid": SHA} for name, held in files.items()]
            return (200, rows) if found[1] in self.repos else _absent("Repo")
        found = re.fullmatch(r"/(?:datasets/)?([^/]+/[^/]+)/resolve/[^/]+/(.+)", unquote(path))
        content = self.repos.get(found[1], {}).get(found[2]) if found else None
        if content is None:
            return _absent("Entry")
        return 200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": SHA}

    def _post(self, path: str, body: bytes) -> Answer:
        if self.refuses:
            return self.refuses, {"error": "no such thing"}
        if path.startswith("/api/repos/create"):
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.repos.setdefault(name, {})
            return 200, {"url": f"{self.url}/{name}", "id": name}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            files = [{**row, "uploadMode": "regular", "shouldIgnore": False} for row in json.loads(body)["files"]]
            return 200, {"files": files, "commitOid": SHA}
        if found := re.match(r"/api/(?:models|datasets|spaces)/([^/]+/[^/]+)/commit/", path):
            return self._commit(found[1], [json.loads(line) for line in body.splitlines()])
        return 404, {}

    def _commit(self, repo: str, rows: list[dict]) -> Answer:
        for row in rows:
            if row["key"] == "header":
                self.commits.append((repo, row["value"]["summary"]))
            elif row["key"] == "file":
                content = base64.b64decode(row["value"]["content"])
                self.repos.setdefault(repo, {})[row["value"]["path"]] = content
        return 200, {"commitUrl": f"{self.url}/{repo}/commit/{SHA}", "commitOid": SHA, "success": True}


def _absent(kind: str) -> Answer:
    return 404, {"error": f"{kind} not found"}, {"X-Error-Code": f"{kind}NotFound"}


@contextmanager
def open_hub() -> Iterator[FakeHub]:
    """A hub that is there for as long as the context lasts."""
    hub = FakeHub()
    try:
        yield hub
    finally:
        hub.close()
