"""The datasets by `kind`; each module registers its loader."""

from ampcore.data.sources import digits, file_data, package_data, synthetic, synthetic_clicks, text

__all__ = ["digits", "file_data", "package_data", "synthetic", "synthetic_clicks", "text"]
