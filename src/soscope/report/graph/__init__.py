# SPDX-License-Identifier: Apache-2.0
"""Pictures of images and of what leads from one to the other."""
