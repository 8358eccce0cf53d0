# SPDX-License-Identifier: Apache-2.0
"""The form of a report: text, a JSON document, or Markdown made from the document."""

from __future__ import annotations

TEXT, JSON, MARKDOWN = "text", "json", "md"
FORMS = (TEXT, JSON, MARKDOWN)


class Form:
    """One of FORMS. It is true if a document is wanted, and false for text.

    `most` is the number of rows of each list on a page, None for the usual number.
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
        """Return a JSON document as it is to be printed, as a page if that is wanted.

        `recording` is the file that the document describes, None if it has no name.
        """
        if not self.is_markdown:
            return document
        import json

        from soscope.report.markdown.page import page

        return page(json.loads(document), self.most, recording)
