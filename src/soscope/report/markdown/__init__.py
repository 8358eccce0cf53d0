# SPDX-License-Identifier: Apache-2.0
"""Pages of Markdown, made of the documents that --json prints."""
