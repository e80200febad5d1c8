"""Build hook: what the package says of its repository derives from one address, `repository` in the hook's own section.

While that is empty, neither the package nor the site names a URL. Once it is set, the README shown by a package index
leads there, too, since an index has none of the files that the links of a README name.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class RepositoryHook(MetadataHookInterface):
    """Fills `project.urls` and `project.readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs, if there is an address, and the README."""
        address = self.config["repository"].removesuffix("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if address:
            metadata["urls"] = {
                "Repository": address,
                "Documentation": f"{address}/blob/main/docs/index.md",
                "Changelog": f"{address}/blob/main/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
            readme = re.sub(r"!\[(.*?)\]\((?!\w+:)", rf"![\1]({address}/raw/main/", readme)
            readme = re.sub(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)", rf"[\1]({address}/blob/main/", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
