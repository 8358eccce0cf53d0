# SPDX-License-Identifier: Apache-2.0
"""Pages of Markdown, made from the documents that --json prints."""
