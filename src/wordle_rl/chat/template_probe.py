"""Render a chat template under limits of memory and time. `templates.training_template` runs this file as a process.

A template is a program that comes with a model. Its sandbox keeps it from files and code, but not from loops without
end and texts without bound, and a single multiplication of texts or numbers cannot be interrupted from inside.
Standard input holds JSON: the template, and the variables of each rendering. Its own errors end the process with 0;
they are reported where the template is used.
"""

import json
import sys
from contextlib import suppress

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS = 2
"""Processor time for all renderings. An ordinary template takes a millisecond."""
BYTES = 1 << 30
"""Address space; Python and jinja2 take 0.05 GiB of it."""
CHARACTERS = 1 << 20
"""Length of one rendering."""


class Generation(Extension):
    """The tag `generation`, which transformers adds to the language."""

    tags = {"generation"}  # noqa: RUF012  # as the class above has it

    def parse(self, parser: Parser) -> nodes.Node:
        """Read the tag as a block that is always rendered."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.If(nodes.Const(True), body, [], []).set_lineno(line)


def main() -> None:
    """Render what standard input holds; exit with 1 if a rendering is too long or takes too much memory."""
    with suppress(ImportError):  # Windows has no limits of a process; time is still limited from outside
        import resource

        for kind, limit in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, BYTES)):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    given = json.load(sys.stdin)
    extensions = [Generation, "jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = lambda value, **options: json.dumps(value)  # noqa: ARG005
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: str(form)}
    try:
        template = environment.from_string(given["template"])
        for variables in given["renderings"]:
            length = 0
            for part in template.generate(**variables):
                length += len(part)
                if length > CHARACTERS:
                    sys.exit(1)
    except MemoryError:
        sys.exit(1)
    except Exception:  # a template is foreign code and may raise anything; its errors are told where it is used
        sys.exit(0)


def _refuse(message: str) -> None:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
