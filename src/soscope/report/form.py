# SPDX-License-Identifier: Apache-2.0
"""In which form a report is asked for: text, a JSON document, or Markdown made of that."""

from __future__ import annotations

TEXT, JSON, MARKDOWN = "text", "json", "md"
FORMS = (TEXT, JSON, MARKDOWN)


class Form:
    """One of FORMS. It is true where a document is wanted, and not text.

    `most` rows of each list are on a page, None: as many as there are on one usually.
    """

    __slots__ = ("most", "name")

    def __init__(self, name: str = TEXT, most: int | None = None) -> None:
        self.name = name
        self.most = most

    def __bool__(self) -> bool:
        return self.name != TEXT

    @property
    def is_markdown(self) -> bool:
        """Return whether a page is wanted."""
        return self.name == MARKDOWN

    def shaped(self, document: str, recording: str | None = None) -> str:
        """Return a JSON document, or a text where that is wanted, as it is to be printed.

        `recording` is the file that the document is of, None: of none that can be named.
        """
        if not self.is_markdown:
            return document
        import json

        from soscope.report.markdown.page import page

        return page(json.loads(document), self.most, recording)
