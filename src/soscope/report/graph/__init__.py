# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, whose nodes are images."""
