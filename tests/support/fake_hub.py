"""A model hub on this machine: it takes commits of small files, and hands out what it has, as huggingface_hub asks."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """Repositories by name, each a dict of files; the titles of all commits; the status with which it refuses any."""

    url: str = ""
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: list[tuple[str, str]] = field(default_factory=list)
    refuses: int = 0


@contextmanager
def open_hub() -> Iterator[FakeHub]:
    """A hub that is there for as long as the context lasts."""
    hub = FakeHub()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub})) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    """Set by the class that is made for each self.hub."""

    def do_HEAD(self) -> None:
        self._file(body=False)

    def do_GET(self) -> None:
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/[^/?]+(\?.*)?", self.path):
            self._about(found[1])
        elif found := re.fullmatch(r"/api/(?:models|datasets)/([^/]+/[^/]+)/tree/[^/?]+(/.*)?(\?.*)?", self.path):
            if found[1] not in self.hub.repos:
                self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
                return
            files = self.hub.repos[found[1]]
            self._json([{"type": "file", "path": n, "size": len(b), "oid": SHA} for n, b in files.items()])
        else:
            self._file(body=True)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.hub.refuses:
            self._json({"error": "no such thing"}, self.hub.refuses)
        elif self.path.startswith("/api/repos/create"):
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.hub.repos.setdefault(name, {})
            self._json({"url": f"{self.hub.url}/{name}", "id": name})
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [{**row, "uploadMode": "regular", "shouldIgnore": False} for row in json.loads(body)["files"]]
            self._json({"files": files, "commitOid": SHA})
        elif found := re.match(r"/api/(?:models|datasets|spaces)/([^/]+/[^/]+)/commit/", self.path):
            self._commit(found[1], [json.loads(line) for line in body.splitlines()])
        else:
            self._json({}, 404)

    def _commit(self, repo: str, rows: list[dict]) -> None:
        for row in rows:
            if row["key"] == "header":
                self.hub.commits.append((repo, row["value"]["summary"]))
            elif row["key"] == "file":
                content = base64.b64decode(row["value"]["content"])
                self.hub.repos.setdefault(repo, {})[row["value"]["path"]] = content
        self._json({"commitUrl": f"{self.hub.url}/{repo}/commit/{SHA}", "commitOid": SHA, "success": True})

    def _about(self, repo: str) -> None:
        if repo not in self.hub.repos:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            return
        self._json({"id": repo, "sha": SHA, "siblings": [{"rfilename": name} for name in self.hub.repos[repo]]})

    def _file(self, *, body: bool) -> None:
        found = re.fullmatch(r"/(?:datasets/)?([^/]+/[^/]+)/resolve/[^/]+/(.+)", unquote(self.path))
        content = self.hub.repos.get(found[1], {}).get(found[2]) if found else None
        if content is None:
            self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", SHA)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _json(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
