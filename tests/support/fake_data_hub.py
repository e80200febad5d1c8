"""A hub of data sets on loopback: the routes that huggingface_hub asks to list and fetch files."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Data sets by name, each with its files, and what was asked for."""

    def __init__(self, data_sets: Mapping[str, Mapping[str, bytes]]) -> None:
        self.data_sets, self.asked, self.address = data_sets, [], ""

    def reply(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of a request."""
        path = unquote(urlsplit(path).path).strip("/")
        self.asked.append(path)
        for name, files in self.data_sets.items():
            if path.startswith(f"api/datasets/{name}/tree/"):
                listed = [{"type": "file", "path": p, "size": len(b), "oid": "0" * 40} for p, b in files.items()]
                return 200, json.dumps(listed).encode(), {"Content-Type": "application/json"}
            file = path.removeprefix(f"datasets/{name}/resolve/").partition("/")[2]
            if path.startswith(f"datasets/{name}/resolve/") and file in files:
                etag = hashlib.sha256(files[file]).hexdigest()
                return 200, files[file], {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}
        return 404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}


@contextmanager
def open_hub(data_sets: Mapping[str, Mapping[str, bytes]]) -> Iterator[FakeHub]:
    """A hub that answers until the context ends."""
    hub = FakeHub(data_sets)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = hub.reply(self.path)
            self.send_response(status)
            for header, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()
